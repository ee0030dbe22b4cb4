"""The heads of a client's frames, and what the library takes no notice of.

It ignores frames of streams that are closed: it has forgotten them, since with RFC 9218 no tree of
priorities has to keep them.  And it ignores PRIORITY.
"""


@cython.no_gc
cdef class FrameHeads(FrameCounts):
    """Where frames begin in what came, and which streams have been."""

    cdef size_t _skipped  # bytes to the next frame
    cdef size_t _head_size  # of the next frame's head, as much as came
    cdef size_t _wanted  # of it
    cdef uint8_t[_FRAME_HEAD_SIZE + _PARENT_SIZE] _head

    cdef size_t _block_size  # of the header block whose frames came last; 0 behind it
    cdef size_t _max_block_size
    cdef bint _ends_block  # the frame that came last

    cdef int32_t _newest
    cdef int32_t _first_left_out  # of the numbers that no stream had, those that were left out last
    cdef int32_t _last_left_out
    cdef dict _disowned
    cdef Py_ssize_t _max_disowned

    def __cinit__(self):
        self._skipped = _PREFACE_SIZE
        self._wanted = _FRAME_HEAD_SIZE
        self._newest = -1
        self._disowned = {}

    cdef const uint8_t *next_head(self, const uint8_t *data, const uint8_t *end) noexcept:
        """Go to where a head ends; NULL if none does any more."""
        cdef size_t part
        if self._head_size == self._wanted:
            self._head_size = 0
            self._wanted = _FRAME_HEAD_SIZE
        while data < end:
            if self._skipped > 0:
                part = min(self._skipped, <size_t>(end - data))
                self._skipped -= part
                data += part
                continue
            part = min(self._wanted - self._head_size, <size_t>(end - data))
            memcpy(self._head + self._head_size, data, part)
            self._head_size += part
            data += part
            if self._head_size == self._wanted:
                if self._wanted > _FRAME_HEAD_SIZE:
                    self._skipped = _PRIORITY_SIZE - _PARENT_SIZE
                    return data
                self._skipped = (
                    <size_t>self._head[0] << 16 | <size_t>self._head[1] << 8 | self._head[2])
                self._see_block()
                self.count_frame(
                    self._head[3], self._skipped, number_at(self._head + 5) > self._newest)
                if self._head[3] != NGHTTP2_PRIORITY or self._skipped != _PRIORITY_SIZE:
                    return data
                self._skipped = 0
                self._wanted += _PARENT_SIZE
        return NULL

    cdef void _see_block(self) noexcept:
        if self._head[3] == NGHTTP2_HEADERS:
            self._block_size = self._skipped
        elif self._head[3] == NGHTTP2_CONTINUATION:
            self._block_size += self._skipped
        else:
            self._block_size = 0
        self._ends_block = self._head[4] & NGHTTP2_FLAG_END_HEADERS

    @property
    def unfinished(self):
        if self._ends_block and self._skipped == 0:
            return 0
        return self._block_size - min(self._skipped, self._block_size)

    cdef const char *breach(self, dict streams, uint32_t *code) except? NULL:
        """Tell what is wrong with the frame whose head was found last; NULL if nothing is.

        `streams` are those that are there once all before it is taken.
        """
        cdef int kind = self._head[3]
        cdef int32_t stream_id = number_at(self._head + 5)
        if self._block_size > self._max_block_size:
            code[0] = NGHTTP2_ENHANCE_YOUR_CALM
            return b"a header block of many times what it may have"
        code[0] = NGHTTP2_PROTOCOL_ERROR
        if kind == NGHTTP2_PRIORITY:
            if stream_id == 0:
                return b"PRIORITY of no stream"
            if self._wanted > _FRAME_HEAD_SIZE and (
                number_at(self._head + _FRAME_HEAD_SIZE) == stream_id
            ):
                return b"PRIORITY of a stream on itself"  # RFC 7540, 5.3.1
        elif kind <= NGHTTP2_HEADERS and stream_id % 2 == 1:
            if stream_id > self._newest:
                if kind == NGHTTP2_HEADERS:
                    self._begin(stream_id)
            elif self._first_left_out <= stream_id <= self._last_left_out:
                return b"a stream below the newest"  # RFC 9113, 5.1.1
            elif stream_id not in streams and stream_id not in self._disowned:
                code[0] = NGHTTP2_STREAM_CLOSED  # RFC 9113, 5.1
                return b"a frame of a closed stream"
        return NULL

    cdef int _begin(self, int32_t stream_id) except -1:
        if stream_id - self._newest > 2:
            self._first_left_out = self._newest + 2
            self._last_left_out = stream_id - 2
        self._newest = stream_id
        self.disown(stream_id)  # unless the library takes it
        return 0

    cdef int own(self, int32_t stream_id) except -1:
        """The library has taken a stream."""
        self._disowned.pop(stream_id, None)
        return 0

    cdef int disown(self, int32_t stream_id) except -1:
        """Have what may still come for a stream ignored.

        A client that sends it does not know of the stream's end, nor of that of any stream after
        it.  So all these streams are open for the client: they are no more than may be open, or
        than it opens before it knows how many those are.
        """
        self._disowned[stream_id] = None
        if len(self._disowned) > self._max_disowned:
            del self._disowned[next(iter(self._disowned))]
        return 0


cdef int32_t number_at(const uint8_t *data) noexcept:
    """A stream's number, without the bit before it."""
    return (<int32_t>(data[0] & 0x7F) << 24 | <int32_t>data[1] << 16
            | <int32_t>data[2] << 8 | data[3])
