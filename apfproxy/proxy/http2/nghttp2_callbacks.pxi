"""What the library calls while it reads and writes."""

cdef int on_begin_headers(
    nghttp2_session *_, const nghttp2_frame *frame, void *user_data) except -902:
    cdef Session session = <Session>user_data
    cdef Stream stream
    if frame.headers.cat == NGHTTP2_HCAT_REQUEST:
        stream = Stream.__new__(Stream)
        session._streams[frame.hd.stream_id] = stream
        session.own(frame.hd.stream_id)
        session._method = session._scheme = session._authority = b""
        session._path = session._protocol = b""
        session._marks = 0
    else:
        stream = session._streams[frame.hd.stream_id]
    session._read_stream = stream
    if session._fields.start == NULL:
        session._fields = take_spare()
    session._fields.size = 0
    session._fields_size = 0
    return 0


cdef int on_header(
    nghttp2_session *library, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
    const uint8_t *value, size_t value_size, uint8_t flags, void *user_data) except -902:
    cdef Session session = <Session>user_data
    session._fields_size += name_size + value_size + _FIELD_OVERHEAD
    # No bomb of HPACK is read to its end: by a reference of one byte comes a field of 4 KiB, which
    # the library looks over before it is here.
    if session._fields_size > min(
        _UNPACKED_SIZE + _UNPACKED_TIMES * frame.hd.length,
        _READ_TIMES * session._max_fields_bytes,
    ):
        check(nghttp2_submit_rst_stream(
            library, NGHTTP2_FLAG_NONE, frame.hd.stream_id, NGHTTP2_ENHANCE_YOUR_CALM))
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE
    if session._fields_size > session._max_fields_bytes:
        return 0  # the rest is read for the answer's sake
    if name[0] == b":":
        # The library lets these five pass, each once, none of them empty.
        text = PyBytes_FromStringAndSize(<const char *>value, value_size)
        if name_size == 10:
            session._authority = text
        elif name_size == 9:
            session._protocol = text
        elif name_size == 5:
            session._path = text
        elif name[1] == b"m":
            session._method = text
        else:
            session._scheme = text
        return 0
    if name_size == 14 and memcmp(name, b"content-length", 14) == 0:
        session._marks |= _HAS_LENGTH
    elif name_size == 4 and memcmp(name, b"host", 4) == 0:
        session._marks |= _HAS_HOST
    elif name_size == 6 and memcmp(name, b"cookie", 6) == 0:
        session._marks |= _HAS_COOKIES if session._marks & _HAS_COOKIE else _HAS_COOKIE
    append(&session._fields, name, name_size)
    append(&session._fields, b": ", 2)
    append(&session._fields, value, value_size)
    append(&session._fields, b"\r\n", 2)
    return 0


cdef int on_invalid_header(
    nghttp2_session *_, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
    const uint8_t *value, size_t value_size, uint8_t flags, void *user_data) except -902:
    # The library would leave the field out; RFC 9113, 8.1.1 has the request malformed.
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE


cdef int on_frame_recv(
    nghttp2_session *_, const nghttp2_frame *frame, void *user_data) except -902:
    cdef Session session = <Session>user_data
    cdef Stream stream
    cdef bint is_last = frame.hd.flags & NGHTTP2_FLAG_END_STREAM
    if frame.hd.type == NGHTTP2_HEADERS:
        on_fields(session, frame, is_last)
    elif frame.hd.type == NGHTTP2_DATA:
        session.count_data(frame)
        if is_last:
            stream = session._streams[frame.hd.stream_id]
            stream.is_received = True
            session._events.append((_END, frame.hd.stream_id, b"", True))
    elif frame.hd.type == NGHTTP2_RST_STREAM:
        stream = session._streams.get(frame.hd.stream_id)
        if stream is not None:
            stream.is_reset = True
            session.resets += not stream.is_answered
    return 0


cdef int on_fields(Session session, const nghttp2_frame *frame, bint is_last) except -1:
    """A header block is complete, and as it should be."""
    cdef int32_t stream_id = frame.hd.stream_id
    cdef Stream stream = session._read_stream
    cdef nghttp2_extpri turns = nghttp2_extpri(3, 1)
    cdef bint has_cut = session._is_sifted and session._sieve.has_cut
    cdef bint is_too_large = session._fields_size > session._max_fields_bytes or has_cut
    cdef bytes fields
    stream.is_received = is_last
    if frame.headers.cat == NGHTTP2_HCAT_REQUEST:
        stream.is_told = True
        stream.told_in = session._receives
        stream.told_at = len(session._events)
        # Streams take turns, whatever a client wishes: one exchange must not starve others.
        check(nghttp2_session_change_extpri_stream_priority(
            session._session, stream_id, &turns, 1))
        if is_too_large:
            session._events.append((_TOO_LARGE, stream_id, session._method, has_cut))
        else:
            fields = in_order(session._fields.start, session._fields.size)
            session._events.append((
                _REQUEST, stream_id,
                (session._method, session._scheme, session._authority, session._path,
                 session._protocol, fields, session._marks & ~_HAS_COOKIE),
                is_last))
    elif is_too_large:
        check(nghttp2_submit_rst_stream(
            session._session, NGHTTP2_FLAG_NONE, stream_id, NGHTTP2_ENHANCE_YOUR_CALM))
    else:
        fields = PyBytes_FromStringAndSize(session._fields.start, session._fields.size)
        session._events.append((_TRAILERS, stream_id, fields, True))
    give_back(&session._fields)
    session._fields = Buffer(NULL, 0, 0)
    return 0


cdef int on_invalid_frame_recv(
    nghttp2_session *_, const nghttp2_frame *frame, int error, void *user_data) except -902:
    """A frame breaks a rule; where its stream is known, the stream's end counts."""
    cdef Session session = <Session>user_data
    if frame.hd.stream_id not in session._streams:
        session.count_own_reset()
    return 0


cdef int on_data_chunk_recv(
    nghttp2_session *library, uint8_t flags, int32_t stream_id, const uint8_t *data, size_t size,
    void *user_data) except -902:
    cdef Session session = <Session>user_data
    session._events.append((
        _DATA, stream_id, PyBytes_FromStringAndSize(<const char *>data, size), False))
    check(nghttp2_session_consume_connection(library, size))
    return 0


cdef int on_stream_close(
    nghttp2_session *_, int32_t stream_id, uint32_t code, void *user_data) except -902:
    cdef Session session = <Session>user_data
    cdef Stream stream = session._streams.pop(stream_id, None)
    if stream is None:
        return 0
    session._drop(stream)
    if code != NGHTTP2_NO_ERROR and not (stream.is_reset or stream.is_ended):
        session.count_own_reset()
    if stream.is_ended or (code != NGHTTP2_NO_ERROR and not stream.is_reset):
        session.disown(stream_id)
    if not stream.is_told:
        return 0
    if session._is_receiving and stream.told_in == session._receives:
        if session._hidden is None:
            session._hidden = set()
        session._hidden.add(stream_id)
        session._events[stream.told_at] = None  # it may be large, and many more follow
    else:
        session._events.append((_CLOSED, stream_id, None, code))
    return 0


cdef ssize_t on_read_body(
    nghttp2_session *library, int32_t stream_id, uint8_t *_, size_t size, uint32_t *flags,
    nghttp2_data_source *source, void *user_data) except -902:
    """Say how much of a body goes into the next DATA frame; `on_send_data` has the bytes."""
    cdef Session session = <Session>user_data
    cdef Stream stream = <Stream>source.ptr
    session._is_sliver = size < stream.unsent and size < _SLIVER_SIZE
    size = min(size, stream.unsent)
    if size > 0:
        flags[0] |= NGHTTP2_DATA_FLAG_NO_COPY
    elif not stream.is_last:
        if stream.is_broken and not stream.is_ended:
            stream.is_ended = True
            check(nghttp2_submit_rst_stream(
                library, NGHTTP2_FLAG_NONE, stream_id, stream.break_code))
        return NGHTTP2_ERR_DEFERRED
    if stream.is_last and size == stream.unsent:
        flags[0] |= NGHTTP2_DATA_FLAG_EOF
        if stream.trailers is not None:
            flags[0] |= NGHTTP2_DATA_FLAG_NO_END_STREAM
            check(submit_fields(library, stream_id, 0, stream.trailers, TRAILER, NULL))
    return size


cdef int on_send_data(
    nghttp2_session *_, nghttp2_frame *frame, const uint8_t *head, size_t size,
    nghttp2_data_source *source, void *user_data) except -902:
    cdef Session session = <Session>user_data
    cdef Stream stream = <Stream>source.ptr
    append(&session._out, head, _FRAME_HEAD_SIZE)
    stream.move(&session._out, size)
    session.unsent_bytes -= size
    session._tell_room(frame.hd.stream_id, stream)
    return NGHTTP2_ERR_PAUSE if session._out.size >= session._out_bound else 0


cdef int on_frame_send(
    nghttp2_session *library, const nghttp2_frame *frame, void *user_data) except -902:
    cdef Session session = <Session>user_data
    cdef Stream stream
    if frame.hd.type == NGHTTP2_DATA:
        session.data_sent += not session._is_sliver
    elif frame.hd.type == NGHTTP2_GOAWAY:
        session._goaway_code = frame.goaway.error_code
        session._goaway_reason = PyBytes_FromStringAndSize(
            <const char *>frame.goaway.opaque_data, frame.goaway.opaque_data_len)
    if frame.hd.flags & NGHTTP2_FLAG_END_STREAM and (
        frame.hd.type == NGHTTP2_DATA or frame.hd.type == NGHTTP2_HEADERS
    ):
        stream = session._streams.get(frame.hd.stream_id)
        if stream is None:
            return 0
        stream.is_sent = True
        if stream.is_received:
            return 0
        if stream.is_broken:
            stream.is_ended = True
            check(nghttp2_submit_rst_stream(
                library, NGHTTP2_FLAG_NONE, frame.hd.stream_id, stream.break_code))
        elif not stream.may_go_on:
            session._events.append((_ANSWERED, frame.hd.stream_id, None, 0))
    return 0


cdef int on_frame_not_send(
    nghttp2_session *library, const nghttp2_frame *frame, int error, void *user_data) except -902:
    """Fields could not be sent: the stream must not wait for what will never come."""
    cdef Session session = <Session>user_data
    cdef Stream stream
    if frame.hd.type == NGHTTP2_HEADERS:
        stream = session._find(frame.hd.stream_id)
        if stream is None:
            return 0
        stream.is_ended = True
        check(nghttp2_submit_rst_stream(
            library, NGHTTP2_FLAG_NONE, frame.hd.stream_id, NGHTTP2_INTERNAL_ERROR))
    return 0


cdef nghttp2_session_callbacks *new_callbacks() except NULL:
    cdef nghttp2_session_callbacks *made = NULL
    check(nghttp2_session_callbacks_new(&made))
    nghttp2_session_callbacks_set_on_begin_headers_callback(made, on_begin_headers)
    nghttp2_session_callbacks_set_on_header_callback(made, on_header)
    nghttp2_session_callbacks_set_on_invalid_header_callback(made, on_invalid_header)
    nghttp2_session_callbacks_set_on_frame_recv_callback(made, on_frame_recv)
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(made, on_invalid_frame_recv)
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, on_data_chunk_recv)
    nghttp2_session_callbacks_set_on_stream_close_callback(made, on_stream_close)
    nghttp2_session_callbacks_set_on_frame_send_callback(made, on_frame_send)
    nghttp2_session_callbacks_set_on_frame_not_send_callback(made, on_frame_not_send)
    nghttp2_session_callbacks_set_send_data_callback(made, on_send_data)
    return made
