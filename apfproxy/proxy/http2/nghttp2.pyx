# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: binding=False, auto_pickle=False
"""The server's side of HTTP/2 connections by libnghttp2; nghttp2.pyi has the interface.

The library calls back while it reads and writes.  Callbacks only note what came, so no Python code
runs within one but allocation; an exception (MemoryError) leaves the library as the failure of the
callback, and the call that it came from raises it.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr, memcmp, memcpy

from apfproxy.proxy.http2.nghttp2_library cimport *

cdef extern from "<strings.h>":
    int strncasecmp(const char *, const char *, size_t)

if nghttp2_version(0x013200) == NULL:
    raise ImportError(
        f"libnghttp2 {nghttp2_version(0).version_str.decode()} is too old: 1.50 is needed")

VERSION = nghttp2_version(0).version_str.decode()
REQUEST = 1
TOO_LARGE = 2
DATA = 3
TRAILERS = 4
END = 5
CLOSED = 6
ROOM = 7
ANSWERED = 8
HAS_LENGTH = 1
HAS_HOST = 2
HAS_COOKIES = 4

cdef enum:
    _REQUEST = 1
    _TOO_LARGE = 2
    _DATA = 3
    _TRAILERS = 4
    _END = 5
    _CLOSED = 6
    _ROOM = 7
    _ANSWERED = 8

    _HAS_LENGTH = 1
    _HAS_HOST = 2
    _HAS_COOKIE = 8  # one, so far
    _HAS_COOKIES = 4

    _MAX_WINDOW = 0x7FFFFFFF
    _PREFACE_SIZE = 24
    _FRAME_HEAD_SIZE = 9
    _PARENT_SIZE = 4  # of the stream that another depends on, as PRIORITY says
    _PRIORITY_SIZE = 5
    _FIELD_OVERHEAD = 32  # RFC 9113, 6.5.2
    _MAX_ANSWER_FIELDS = 1 << 24  # bytes: whatever a server's answer may have
    _READ_TIMES = 4  # the bound of fields, then they are not even looked at
    _UNPACKED_TIMES = 4  # the bytes that came, likewise, and
    _UNPACKED_SIZE = 3 * 4096  # what references to different fields may come to: a table has 4 KiB
    _FEW_FIELDS = 64
    _SLIVER_SIZE = 1024
    _BLOCK_TIMES = 8  # the bound of fields, and
    _BLOCK_SIZE = 1 << 16  # what a block may have beyond that, then its connection ends
    _MAX_PAYLOAD = 1 << 14  # of a frame: RFC 9113's least, which SETTINGS leave as it is
    _FEW_CONTINUATIONS = 8
    # That clients open at once before they know the limit: Go's take it for 100, others for none.
    # Beyond 500 that are refused, `frame_budget` ends their connection.
    _STREAMS_AT_FIRST = 1000
    _KEPT_BYTES = 1 << 18
    _ALL = 1 << 30


class SessionError(Exception):
    """The connection is over; `code` is its GOAWAY's."""

    def __init__(self, code, reason):
        super().__init__(reason)
        self.code = code


include "nghttp2_frame_counts.pxi"
include "nghttp2_frame_heads.pxi"
include "nghttp2_stream.pxi"
include "nghttp2_sieve.pxi"


@cython.final
@cython.no_gc  # neither it nor a stream refers to what may refer to it
cdef class Session(FrameHeads):
    """A connection; the library has its streams, `_streams` what the library does not."""

    cdef nghttp2_session *_session
    cdef dict _streams
    cdef list _events
    cdef readonly size_t unsent_bytes
    cdef set _hidden  # streams that came and went within this `receive`
    cdef unsigned long long _receives
    cdef bint _is_busy
    cdef bint _is_receiving
    cdef size_t _max_fields_bytes
    cdef size_t _low_water_bytes
    cdef str _error  # of a connection that is over
    cdef bytes _farewell  # its output

    # The header block that is being read.
    cdef Stream _read_stream
    cdef size_t _fields_size  # as RFC 9113 counts
    cdef Buffer _fields
    cdef bytes _method, _scheme, _authority, _path, _protocol
    cdef int _marks

    # One that comes in several frames, and the frame of it that is not whole.
    cdef Sieve _sieve
    cdef bint _is_sifted
    cdef bint _is_part_sifted
    cdef Buffer _part

    # What `output` has until now.
    cdef Buffer _out
    cdef size_t _out_bound
    cdef bint _is_sliver  # the DATA frame that is being written: its client has room for no more

    cdef uint32_t _goaway_code
    cdef bytes _goaway_reason

    def __init__(
        self,
        uint32_t max_streams,
        uint32_t window_bytes,
        uint32_t max_fields_bytes,
        size_t low_water_bytes,
        bint connect_protocol,
    ):
        cdef nghttp2_settings_entry[5] entries
        cdef unsigned long long window = <unsigned long long>max_streams * window_bytes
        if self._session != NULL:
            raise RuntimeError("a session is made once")
        if not 0 < window_bytes <= _MAX_WINDOW:
            raise ValueError("window_bytes is from 1 to 2^31 - 1")
        self._streams = {}
        self._events = []
        self._hidden = None
        self._max_fields_bytes = max_fields_bytes
        self._low_water_bytes = low_water_bytes
        self._sieve = Sieve.__new__(Sieve)
        self._max_block_size = _BLOCK_TIMES * <size_t>max_fields_bytes + _BLOCK_SIZE
        # The library counts one more where what it is given ends behind a frame.
        bound_continuations(
            options, 2 * (self._max_block_size // _MAX_PAYLOAD + _FEW_CONTINUATIONS))
        self._max_disowned = max(<Py_ssize_t>max_streams, _STREAMS_AT_FIRST)
        self._check(nghttp2_session_server_new3(
            &self._session, callbacks, <void *>self, options, &memory))
        entries[0] = nghttp2_settings_entry(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, max_streams)
        entries[1] = nghttp2_settings_entry(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window_bytes)
        entries[2] = nghttp2_settings_entry(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, max_fields_bytes)
        entries[3] = nghttp2_settings_entry(NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1)
        entries[4] = nghttp2_settings_entry(NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1)
        self._check(nghttp2_submit_settings(
            self._session, NGHTTP2_FLAG_NONE, entries, 5 if connect_protocol else 4))
        window = min(window, <unsigned long long>_MAX_WINDOW)
        self._check(nghttp2_session_set_local_window_size(
            self._session, NGHTTP2_FLAG_NONE, 0, <int32_t>window))

    def __dealloc__(self):
        nghttp2_session_del(self._session)
        release(&self._fields)
        release(&self._part)

    # What the connection's owner calls.

    def receive(self, data):
        cdef Py_buffer view
        self._enter()
        try:
            if self._error is not None:
                raise SessionError(self._goaway_code, self._error)
            PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
            try:
                self._receives += 1
                self._is_receiving = True
                self._read(<const uint8_t *>view.buf, view.len)
            except SessionError:
                raise
            except BaseException:
                self._lose()
                raise
            finally:
                self._is_receiving = False
                PyBuffer_Release(&view)
            return self._take_events()
        finally:
            self._is_busy = False

    def events(self):
        return self._take_events()

    def output(self, size_t max_bytes):
        cdef bytes farewell = self._farewell
        if farewell is not None:
            self._farewell = None
            return farewell
        self._enter()
        try:
            return self._write(max_bytes)
        except SessionError:
            raise
        except BaseException:
            self._lose()
            raise
        finally:
            self._is_busy = False

    def interim(self, int32_t stream_id, int status, bytes lines not None):
        cdef Stream stream = self._find(stream_id)
        if stream is None or stream.is_answered:
            return
        self._check(submit_fields(self._session, stream_id, status, lines, INTERIM, NULL))

    def answer(
        self, int32_t stream_id, int status, bytes lines not None, bytes body not None, bint is_last
    ):
        cdef Stream stream = self._find(stream_id)
        cdef nghttp2_data_provider body_source
        if stream is None:
            return
        if stream.is_answered:
            raise ValueError(f"stream {stream_id} has its answer")
        if is_last and PyBytes_GET_SIZE(body) == 0:
            self._check(submit_fields(self._session, stream_id, status, lines, ANSWER, NULL))
        else:
            body_source.source.ptr = <void *>stream
            body_source.read_callback = on_read_body
            self._check(submit_fields(
                self._session, stream_id, status, lines, ANSWER, &body_source))
            self._add(stream, body)
        stream.is_answered = True
        stream.is_last = is_last

    def send(self, int32_t stream_id, bytes data not None, bint is_last):
        cdef Stream stream = self._find(stream_id)
        if stream is None:
            return
        if not stream.is_answered or stream.is_last:
            raise ValueError(f"stream {stream_id} has no answer under way")
        self._add(stream, data)
        stream.is_last = is_last
        self._resume(stream_id)

    def end(self, int32_t stream_id, bytes trailers not None):
        cdef Stream stream = self._find(stream_id)
        if stream is None:
            return
        if not stream.is_answered or stream.is_last:
            raise ValueError(f"stream {stream_id} has no answer under way")
        if PyBytes_GET_SIZE(trailers) > 0:
            read_lines(NULL, trailers)  # they are read once more where an error ends all
            stream.trailers = trailers
        stream.is_last = True
        self._resume(stream_id)

    def half_close(self, int32_t stream_id):
        cdef Stream stream = self._find(stream_id)
        if stream is None:
            return
        self.end(stream_id, b"")
        stream.may_go_on = True

    def break_off(self, int32_t stream_id, uint32_t code):
        cdef Stream stream = self._find(stream_id)
        if stream is None:
            return
        if stream.is_last:
            if stream.may_go_on and stream.is_sent:
                self._reset(stream_id, stream, code)
            elif stream.may_go_on:
                stream.is_broken = True
                stream.break_code = code
            return
        if not stream.is_answered:
            self._reset(stream_id, stream, code)
            return
        stream.is_broken = True
        stream.break_code = code
        self._resume(stream_id)

    def reset(self, int32_t stream_id, uint32_t code):
        cdef Stream stream = self._find(stream_id)
        if stream is not None:
            if code == NGHTTP2_PROTOCOL_ERROR:
                self.count_own_reset()
            self._reset(stream_id, stream, code)

    def consume(self, int32_t stream_id, size_t size):
        if self._find(stream_id) is not None:
            self._check(nghttp2_session_consume_stream(self._session, stream_id, size))

    def unsent(self, int32_t stream_id):
        cdef Stream stream = self._find(stream_id)
        return 0 if stream is None else stream.unsent

    def want_room(self, int32_t stream_id):
        cdef Stream stream = self._find(stream_id)
        if stream is not None:
            stream.wants_room = True
            self._tell_room(stream_id, stream)

    def ping(self):
        self._check_there()
        self._check(nghttp2_submit_ping(self._session, NGHTTP2_FLAG_NONE, NULL))

    def announce_shutdown(self):
        self._check_there()
        self._check(nghttp2_submit_shutdown_notice(self._session))

    def go_away(self, uint32_t code, bytes reason not None = b""):
        self._check_there()
        self._check(nghttp2_submit_goaway(
            self._session, NGHTTP2_FLAG_NONE,
            nghttp2_session_get_last_proc_stream_id(self._session), code,
            <const uint8_t *>PyBytes_AS_STRING(reason), PyBytes_GET_SIZE(reason)))

    @property
    def is_over(self):
        return self._session == NULL or self._farewell is None and not (
            nghttp2_session_want_read(self._session) or nghttp2_session_want_write(self._session))

    # What they have in common.

    cdef int _enter(self) except -1:
        # The library does not bear it; a finalizer that the collector runs could do it.
        if self._is_busy:
            raise RuntimeError("the session is in use")
        self._check_there()
        self._is_busy = True
        return 0

    cdef int _check_there(self) except -1:
        if self._session == NULL:
            raise SessionError(NGHTTP2_INTERNAL_ERROR, "it is lost by an error")
        return 0

    cdef int _check(self, int result) except -1:
        if nghttp2_is_fatal(result):
            self._lose()
        return check(result)

    cdef int _lose(self) except -1:
        """Have no session any more, after an error that is not the client's: mostly no memory.

        What the library has of it is left as it is: nghttp2 1.52 would free a DATA frame twice that
        could not be queued.
        """
        self._session = NULL
        self._streams.clear()
        self._events.clear()
        self._farewell = None
        return 0

    cdef Stream _find(self, int32_t stream_id):
        """The stream, unless it is gone or will be by a call here."""
        cdef Stream stream = self._streams.get(stream_id)
        return None if stream is None or stream.is_ended else stream

    cdef list _take_events(self):
        cdef list events = self._events
        cdef set hidden = self._hidden
        self._events = []
        if hidden is not None:
            self._hidden = None
            events = [
                event for event in events
                if event is not None and (<tuple>event)[1] not in hidden]
        return events

    cdef int _reset(self, int32_t stream_id, Stream stream, uint32_t code) except -1:
        stream.is_ended = True
        self._drop(stream)
        self._check(nghttp2_submit_rst_stream(self._session, NGHTTP2_FLAG_NONE, stream_id, code))
        return 0

    cdef int _add(self, Stream stream, bytes data) except -1:
        stream.add(data)
        self.unsent_bytes += PyBytes_GET_SIZE(data)
        return 0

    cdef void _drop(self, Stream stream) noexcept:
        self.unsent_bytes -= stream.unsent
        stream.drop()

    cdef int _resume(self, int32_t stream_id) except -1:
        # It refuses where nothing waits, or not for us: then it will ask.
        cdef int result = nghttp2_session_resume_data(self._session, stream_id)
        if nghttp2_is_fatal(result):
            self._check(result)
        return 0

    cdef int _tell_room(self, int32_t stream_id, Stream stream) except -1:
        if stream.wants_room and stream.unsent <= self._low_water_bytes:
            stream.wants_room = False
            self._events.append((_ROOM, stream_id, None, 0))
        return 0

    cdef int _read(self, const uint8_t *data, size_t size) except -1:
        cdef const uint8_t *end = data + size
        cdef const uint8_t *given = data
        cdef const char *wrong
        cdef uint32_t code
        cdef size_t part
        # Of a head that is not whole nothing is given: its frame may be one that is sifted.
        cdef size_t begun = self._head_size if self._head_size < self._wanted else 0
        while True:
            if self._is_part_sifted:
                part = min(self._skipped, <size_t>(end - data))
                append(&self._part, data, part)
                self._skipped -= part
                data += part
                given = data
                if self._skipped > 0:
                    return 0
                self._is_part_sifted = False
                self._give_sifted()
            data = self.next_head(data, end)
            if data == NULL:
                break
            part = self._wanted - begun
            if self._sifts():
                self._give(given, data - part - given)
                given = data
                self._part.size = 0
                self._is_part_sifted = True
            elif begun > 0:
                self._give(self._head, begun)
            elif self._head[3] <= NGHTTP2_HEADERS and data - given > _FRAME_HEAD_SIZE:
                # Whether it may come depends on what came before it.
                self._give(given, data - given - _FRAME_HEAD_SIZE)
                given = data - _FRAME_HEAD_SIZE
            begun = 0
            wrong = self.breach(self._streams, &code)
            if wrong != NULL:
                self._check(nghttp2_session_terminate_session(self._session, code))
                self._end(wrong)
        part = self._head_size - begun if self._head_size < self._wanted else 0
        return self._give(given, end - given - part)

    cdef bint _sifts(self) noexcept:
        """Whether the frame whose head was found last is one of a block that is sifted."""
        if self._head[3] == NGHTTP2_HEADERS:
            self._is_sifted = not self._ends_block
            if self._is_sifted:
                self._sieve.begin()
        elif self._head[3] != NGHTTP2_CONTINUATION:
            self._is_sifted = False
        return self._is_sifted and self._skipped <= _MAX_PAYLOAD

    cdef int _give_sifted(self) except -1:
        """Give the library the frame that is whole, without what it does not take."""
        cdef uint8_t *head
        cdef uint8_t flags = self._head[4]
        cdef const uint8_t *payload = <const uint8_t *>self._part.start
        cdef size_t size = self._part.size
        cdef size_t padding = 0
        cdef size_t first = 0
        cdef size_t at = 0
        cdef size_t part
        cdef Buffer out = Buffer(NULL, 0, 0)
        if self._head[3] == NGHTTP2_HEADERS:
            if flags & NGHTTP2_FLAG_PADDED:
                padding = payload[0] if size > 0 else 0
                first = 1
            if flags & NGHTTP2_FLAG_PRIORITY:
                first += _PRIORITY_SIZE
        if first + padding > size:
            self._give(self._head, _FRAME_HEAD_SIZE)  # the library says what is wrong
            return self._give(payload, size)
        try:
            append(&out, self._head, _FRAME_HEAD_SIZE)
            if flags & NGHTTP2_FLAG_PRIORITY:
                append(&out, payload + first - _PRIORITY_SIZE, _PRIORITY_SIZE)
            self._sieve.pass_on(payload + first, size - first - padding, &out)
            while True:
                # The head of a second frame stands in what the library has already.
                head = <uint8_t *>out.start + at
                part = min(out.size - at - _FRAME_HEAD_SIZE, <size_t>_MAX_PAYLOAD)
                memcpy(head, self._head, _FRAME_HEAD_SIZE)
                head[0], head[1], head[2] = part >> 16, part >> 8 & 0xFF, part & 0xFF
                head[4] = flags & ~(NGHTTP2_FLAG_PADDED | NGHTTP2_FLAG_END_HEADERS)
                if at > 0:
                    head[3], head[4] = NGHTTP2_CONTINUATION, NGHTTP2_FLAG_NONE
                at += part
                if at + _FRAME_HEAD_SIZE == out.size:
                    head[4] |= flags & NGHTTP2_FLAG_END_HEADERS
                    return self._give(head, _FRAME_HEAD_SIZE + part)
                self._give(head, _FRAME_HEAD_SIZE + part)
        finally:
            release(&out)

    cdef int _give(self, const uint8_t *data, size_t size) except -1:
        cdef ssize_t result
        if size == 0:
            return 0
        result = nghttp2_session_mem_recv(self._session, data, size)
        if result == NGHTTP2_ERR_NOMEM:
            raise MemoryError
        if result < 0:
            self._check(nghttp2_session_terminate_session(
                self._session,
                NGHTTP2_PROTOCOL_ERROR if result == NGHTTP2_ERR_BAD_CLIENT_MAGIC
                else NGHTTP2_ENHANCE_YOUR_CALM))
            self._end(nghttp2_strerror(<int>result))
        # A connection error queues a GOAWAY, and goes on.  No stream of a client has an even
        # number: this GOAWAY is refused, but in a session that is being ended, where any is ignored.
        if nghttp2_submit_goaway(
            self._session, NGHTTP2_FLAG_NONE, 2, NGHTTP2_NO_ERROR, NULL, 0) == 0:
            self._end(NULL)
        return 0

    cdef int _end(self, const char *reason) except -1:
        """Raise what the GOAWAY says, which the library has queued."""
        self._goaway_code = NGHTTP2_PROTOCOL_ERROR
        self._farewell = self._write(_ALL)
        self._events = []
        self._hidden = None
        if reason != NULL:
            self._error = reason.decode()
        elif self._goaway_reason:
            self._error = self._goaway_reason.decode("ascii", "replace")
        else:
            self._error = nghttp2_http2_strerror(self._goaway_code).decode()
        # Not kept: its traceback would have the frames that have this session.
        raise SessionError(self._goaway_code, self._error)

    cdef bytes _write(self, size_t max_bytes):
        cdef const uint8_t *data
        cdef ssize_t size
        self._out = take_spare()
        self._out_bound = max_bytes
        try:
            while self._out.size < max_bytes:
                size = nghttp2_session_mem_send(self._session, &data)
                if size <= 0:
                    break
                append(&self._out, data, size)
            else:
                size = 0
            if size == NGHTTP2_ERR_NOMEM:
                raise MemoryError
            if size < 0:
                raise SessionError(
                    NGHTTP2_INTERNAL_ERROR, nghttp2_strerror(<int>size).decode())
            return PyBytes_FromStringAndSize(self._out.start, self._out.size)
        finally:
            give_back(&self._out)
            self._out = Buffer(NULL, 0, 0)


cdef int check(int result) except -1:
    """Raise the library's error, if it is one: of ours, or for want of memory."""
    if result == NGHTTP2_ERR_NOMEM:
        raise MemoryError
    if result < 0:
        raise ValueError(nghttp2_strerror(result).decode())
    return 0


include "nghttp2_memory.pxi"
include "nghttp2_fields.pxi"
include "nghttp2_callbacks.pxi"


# What all sessions share, as long as the process runs.

cdef nghttp2_session_callbacks *callbacks = new_callbacks()
cdef nghttp2_option *options = NULL
check(nghttp2_option_new(&options))
nghttp2_option_set_no_auto_window_update(options, 1)
# The library would end a connection without a word for clients that break their answers off.
bound_no_resets(options)
nghttp2_option_set_max_send_header_block_length(options, _MAX_ANSWER_FIELDS)
