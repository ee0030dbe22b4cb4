"""Fields: lines put in order, and those that go out taken apart."""


cdef enum Kind:
    INTERIM
    ANSWER
    TRAILER


cdef int submit_fields(
    nghttp2_session *session, int32_t stream_id, int status, bytes lines, Kind kind,
    const nghttp2_data_provider *body) except? -1:
    """Submit the fields of these lines, which the library copies; a trailer has no status."""
    cdef nghttp2_nv[_FEW_FIELDS] few
    cdef nghttp2_nv *fields = few
    cdef char[3] digits
    cdef size_t first = 0 if kind == TRAILER else 1
    cdef size_t count = first + read_lines(NULL, lines)
    if count > _FEW_FIELDS:
        fields = <nghttp2_nv *>malloc(count * sizeof(nghttp2_nv))
        if fields == NULL:
            raise MemoryError
    try:
        if kind != TRAILER:
            if not (100 if kind == INTERIM else 200) <= status <= (199 if kind == INTERIM else 999):
                raise ValueError(f"{status} is no status of such an answer")
            digits[0] = <char>(48 + status // 100)
            digits[1] = <char>(48 + status // 10 % 10)
            digits[2] = <char>(48 + status % 10)
            fields[0] = nghttp2_nv(
                <uint8_t *>b":status", <uint8_t *>digits, 7, 3, NGHTTP2_NV_FLAG_NONE)
        read_lines(fields + first, lines)
        if kind == INTERIM:
            return nghttp2_submit_headers(
                session, NGHTTP2_FLAG_NONE, stream_id, NULL, fields, count, NULL)
        if kind == TRAILER:
            return nghttp2_submit_trailer(session, stream_id, fields, count)
        return nghttp2_submit_response(session, stream_id, fields, count, body)
    finally:
        if fields != few:
            free(fields)


cdef Py_ssize_t read_lines(nghttp2_nv *fields, bytes lines) except -1:
    """Take apart `name: value\\r\\n` each, and say how many; with NULL only check and count."""
    cdef const char *line = PyBytes_AS_STRING(lines)
    cdef const char *end = line + PyBytes_GET_SIZE(lines)
    cdef const char *colon
    cdef const char *after
    cdef const char *value
    cdef const char *end_of_value
    cdef Py_ssize_t count = 0
    while line < end:
        after = <const char *>memchr(line, b"\n", end - line)
        colon = NULL
        if after != NULL:
            colon = <const char *>memchr(line, b":", after - line)
        if colon == NULL or colon == line or (after - 1)[0] != b"\r":
            raise ValueError("a field has to be a line: name: value\\r\\n")
        if fields != NULL:
            value = colon + 1
            end_of_value = after - 1
            while value < end_of_value and (value[0] == b" " or value[0] == b"\t"):
                value += 1
            while value < end_of_value and (
                (end_of_value - 1)[0] == b" " or (end_of_value - 1)[0] == b"\t"
            ):
                end_of_value -= 1
            fields[count] = nghttp2_nv(
                <uint8_t *>line, <uint8_t *>value, colon - line, end_of_value - value,
                flags_of(line, colon - line))
        count += 1
        line = after + 1
    return count


cdef uint8_t flags_of(const char *name, size_t size) noexcept:
    """Leave out of the table of HPACK what differs in every answer of Kubernetes.

    It would drive out what does not: that costs a tenth of the time, for 4 bytes an answer.  The
    library leaves content-length and etag out by itself; a date is good for a second.
    """
    if size == 8 and strncasecmp(name, b"audit-id", 8) == 0:
        return NGHTTP2_NV_FLAG_NO_INDEX
    return NGHTTP2_NV_FLAG_NONE


cdef struct Line:
    const char *start
    size_t size
    size_t name_size


cdef bytes in_order(const char *start, size_t size):
    """Lines of fields by their names; those of one name stay as they came.

    Go's clients send fields in another order each time, which means nothing (RFC 9110, 5.3).  So a
    client is known again by the bytes of its fields.  Where there are many, they stay as they came.
    """
    cdef Line[_FEW_FIELDS] lines
    cdef Line line
    cdef const char *end = start + size
    cdef const char *at = start
    cdef const char *colon
    cdef const char *after
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t place
    cdef bint is_moved = False
    cdef bytes ordered
    cdef char *into
    while at < end:
        if count == _FEW_FIELDS:
            return PyBytes_FromStringAndSize(start, size)
        colon = <const char *>memchr(at, b":", end - at)
        after = <const char *>memchr(at, b"\n", end - at)
        if colon == NULL or after == NULL:
            # It cannot be: the library has checked the name and value of each.
            return PyBytes_FromStringAndSize(start, size)
        line.start = at
        line.name_size = colon - at
        at = after + 1
        line.size = at - line.start
        place = count
        while place > 0 and compare_names(&lines[place - 1], &line) > 0:
            lines[place] = lines[place - 1]
            place -= 1
            is_moved = True
        lines[place] = line
        count += 1
    if not is_moved:
        return PyBytes_FromStringAndSize(start, size)
    ordered = PyBytes_FromStringAndSize(NULL, size)
    into = PyBytes_AS_STRING(ordered)
    for place in range(count):
        memcpy(into, lines[place].start, lines[place].size)
        into += lines[place].size
    return ordered


cdef int compare_names(const Line *one, const Line *other) noexcept:
    cdef int result = memcmp(one.start, other.start, min(one.name_size, other.name_size))
    if result == 0 and one.name_size != other.name_size:
        return -1 if one.name_size < other.name_size else 1
    return result
