"""What is to be known of a stream, and the bytes that wait in it."""

cdef struct Buffer:
    char *start
    size_t size
    size_t capacity


cdef int append(Buffer *buffer, const void *data, size_t size) except -1:
    """Add bytes at the end, with room for as many as are in it."""
    cdef size_t capacity = buffer.capacity
    cdef char *start
    if buffer.size + size > capacity:
        capacity = max(2 * capacity, buffer.size + size, <size_t>1024)
        start = <char *>realloc(buffer.start, capacity)
        if start == NULL:
            raise MemoryError
        buffer.start = start
        buffer.capacity = capacity
    memcpy(buffer.start + buffer.size, data, size)
    buffer.size += size
    return 0


cdef void release(Buffer *buffer) noexcept:
    free(buffer.start)
    buffer.start = NULL
    buffer.size = buffer.capacity = 0


cdef Buffer spare = Buffer(NULL, 0, 0)
"""Taken by the call that fills it, so that a call within that call has one of its own."""


cdef Buffer take_spare() noexcept:
    global spare
    cdef Buffer taken = spare
    spare = Buffer(NULL, 0, 0)
    taken.size = 0
    return taken


cdef void give_back(Buffer *buffer) noexcept:
    global spare
    if spare.start == NULL and buffer.capacity <= _KEPT_BYTES:
        spare = buffer[0]
    else:
        free(buffer.start)


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class Stream:
    """What is to be known of a stream from its first HEADERS until it is closed."""

    cdef bint is_told  # by REQUEST or TOO_LARGE
    cdef unsigned long long told_in  # which `receive`
    cdef Py_ssize_t told_at  # which of its events
    cdef bint is_received  # END_STREAM came
    cdef bint is_reset  # by RST_STREAM from the client
    cdef bint is_ended  # by a call here that ends in RST_STREAM
    cdef bint is_answered
    cdef bint is_last  # nothing follows what is unsent, but trailers
    cdef bint is_sent  # END_STREAM went out
    cdef bint may_go_on  # the client, after that
    cdef bint is_broken  # RST_STREAM follows what is unsent
    cdef uint32_t break_code
    cdef bint wants_room
    cdef bytes trailers
    cdef list chunks  # of which the first `at` are sent
    cdef Py_ssize_t at
    cdef size_t offset  # of what is unsent of the next chunk
    cdef size_t unsent

    cdef int add(self, bytes data) except -1:
        if PyBytes_GET_SIZE(data) > 0:
            if self.chunks is None:
                self.chunks = []
            self.chunks.append(data)
            self.unsent += PyBytes_GET_SIZE(data)
        return 0

    cdef int move(self, Buffer *into, size_t size) except -1:
        """Move the next bytes; there are as many."""
        cdef bytes chunk
        cdef size_t part
        while size > 0:
            chunk = <bytes>self.chunks[self.at]
            part = min(size, PyBytes_GET_SIZE(chunk) - self.offset)
            append(into, PyBytes_AS_STRING(chunk) + self.offset, part)
            size -= part
            self.unsent -= part
            self.offset += part
            if self.offset == <size_t>PyBytes_GET_SIZE(chunk):
                self.chunks[self.at] = None
                self.at += 1
                self.offset = 0
        if self.unsent == 0:
            self.chunks = None
            self.at = 0
        elif self.at > 64 and 2 * self.at > len(self.chunks):
            del self.chunks[:self.at]
            self.at = 0
        return 0

    cdef void drop(self) noexcept:
        self.chunks = None
        self.at = 0
        self.offset = 0
        self.unsent = 0
