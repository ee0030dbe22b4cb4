"""What a client sends, counted by its frames' heads: the library tells of some frames only."""


@cython.no_gc
cdef class FrameCounts:
    """Counts since the start of the connection; nghttp2.pyi says of what."""

    cdef readonly unsigned long long requests
    cdef readonly unsigned long long resets
    cdef readonly unsigned long long own_resets
    cdef readonly unsigned long long window_updates
    cdef readonly unsigned long long empty_data
    cdef readonly unsigned long long continuations
    cdef readonly unsigned long long data_sent
    cdef readonly unsigned long long nuisances

    cdef void count_frame(self, int kind, size_t size, bint is_new) noexcept:
        """Count a frame by its head; `is_new` says that no stream had its number."""
        if kind == NGHTTP2_HEADERS and is_new:
            self.requests += 1
            return
        if kind == NGHTTP2_DATA:
            if size > 0:
                return
            self.empty_data += 1
        elif kind == NGHTTP2_WINDOW_UPDATE:
            self.window_updates += 1
        elif kind == NGHTTP2_CONTINUATION:
            if size >= _SLIVER_SIZE:
                return  # the size of the block is bounded
            self.continuations += 1
        self.nuisances += 1

    cdef void count_own_reset(self) noexcept:
        self.own_resets += 1
        self.nuisances += 1

    cdef void count_data(self, const nghttp2_frame *frame) noexcept:
        """Correct what the head of a DATA frame could not tell, now that all of it came."""
        cdef bint is_last = frame.hd.flags & NGHTTP2_FLAG_END_STREAM
        if frame.hd.length == 0 and is_last:
            self.empty_data -= 1
            self.nuisances -= 1
        elif frame.hd.length > 0 and frame.hd.length == frame.data.padlen and not is_last:
            self.empty_data += 1
            self.nuisances += 1
