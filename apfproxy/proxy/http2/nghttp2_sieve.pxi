"""Strings in header blocks that are longer than the library takes.

For one of more than 64 KiB it would end the connection.  So a block that comes in several frames is
gone through here first, by the grammar of RFC 7541, 6.  In the place of such a string the library
gets one that does the same to the table of fields: it is larger than the table, which it empties.
"""

cdef enum:
    _MAX_STRING = 65536  # NGHTTP2_HD_MAX_NV, of the bytes as they came
    _MAX_LENGTH_SIZE = 6

cdef enum Place:
    INSTRUCTION
    INDEX  # the rest of one
    LENGTH
    LONG_LENGTH  # the rest of one
    STRING
    LEFT_OUT  # such a string
    LOST  # in what is no proper block: the library will say so

# With their lengths before them.
cdef bytes NAME_STAND_IN = b"\x7f\x81\x1f" + b"x" * 4096
cdef bytes VALUE_STAND_IN = b"\x7f\x81\x1f" + b"/" * 4096  # as a path it may be


@cython.final
@cython.no_gc
cdef class Sieve:
    """Where one block has been gone through to."""

    cdef Place _place
    cdef Place _after_index
    cdef bint _is_name
    cdef size_t _left  # of the string, or the length until now
    cdef int _shift
    cdef uint8_t[_MAX_LENGTH_SIZE] _length
    cdef size_t _length_size
    cdef bint has_cut

    cdef int begin(self) except -1:
        self._place = INSTRUCTION
        self._length_size = 0
        self.has_cut = False
        return 0

    cdef int pass_on(self, const uint8_t *data, size_t size, Buffer *into) except -1:
        """Go through the next part of the block, and add what the library gets of it."""
        cdef const uint8_t *end = data + size
        cdef size_t part
        while data < end:
            if self._place == LENGTH or self._place == LONG_LENGTH:
                self._take_length(data[0], into)
                data += 1
                continue
            part = 1
            if self._place == LOST:
                part = end - data
            elif self._place == STRING or self._place == LEFT_OUT:
                part = min(self._left, <size_t>(end - data))
                self._left -= part
            if self._place != LEFT_OUT:
                append(into, data, part)
            if self._place == INSTRUCTION:
                self._take_instruction(data[0])
            elif self._place == INDEX:
                if data[0] & 0x80 == 0:
                    self._place = self._after_index
            elif self._left == 0 and self._place != LOST:
                self._end_string()
            data += part
        return 0

    cdef void _take_instruction(self, uint8_t byte) noexcept:
        cdef uint8_t prefix
        cdef bint is_literal = False
        if byte & 0x80:
            prefix = 0x7F
        elif byte & 0x40:
            prefix, is_literal = 0x3F, True
        elif byte & 0x20:
            prefix = 0x1F
        else:
            prefix, is_literal = 0x0F, True
        self._is_name = is_literal and byte & prefix == 0
        self._after_index = LENGTH if is_literal else INSTRUCTION
        self._place = INDEX if byte & prefix == prefix else self._after_index

    cdef int _take_length(self, uint8_t byte, Buffer *into) except -1:
        cdef bytes stand_in
        self._length[self._length_size] = byte
        self._length_size += 1
        if self._place == LENGTH:
            self._left = byte & 0x7F
            self._shift = 0
            if self._left == 0x7F:
                self._place = LONG_LENGTH
                return 0
        else:
            self._left += <size_t>(byte & 0x7F) << self._shift
            self._shift += 7
            if byte & 0x80 and self._length_size < _MAX_LENGTH_SIZE:
                return 0
        if byte & 0x80 and self._place == LONG_LENGTH:
            append(into, self._length, self._length_size)
            self._place = LOST
        elif self._left > _MAX_STRING:
            stand_in = NAME_STAND_IN if self._is_name else VALUE_STAND_IN
            append(into, PyBytes_AS_STRING(stand_in), PyBytes_GET_SIZE(stand_in))
            self._place = LEFT_OUT
            self.has_cut = True
        else:
            append(into, self._length, self._length_size)
            self._place = STRING
            if self._left == 0:
                self._end_string()
        self._length_size = 0
        return 0

    cdef void _end_string(self) noexcept:
        self._place = LENGTH if self._is_name else INSTRUCTION
        self._is_name = False
