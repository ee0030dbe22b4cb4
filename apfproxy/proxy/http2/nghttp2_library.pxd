"""What the binding uses of nghttp2.h, by the names and meanings that it has there."""

from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.stddef cimport size_t


cdef extern from "<sys/types.h>":
    ctypedef Py_ssize_t ssize_t


cdef extern from "nghttp2/nghttp2.h":
    enum:
        NGHTTP2_DATA
        NGHTTP2_HEADERS
        NGHTTP2_PRIORITY
        NGHTTP2_RST_STREAM
        NGHTTP2_SETTINGS
        NGHTTP2_PING
        NGHTTP2_GOAWAY
        NGHTTP2_WINDOW_UPDATE
        NGHTTP2_CONTINUATION

        NGHTTP2_FLAG_NONE
        NGHTTP2_FLAG_END_STREAM
        NGHTTP2_FLAG_END_HEADERS
        NGHTTP2_FLAG_PADDED
        NGHTTP2_FLAG_PRIORITY

        NGHTTP2_HCAT_REQUEST

        NGHTTP2_NV_FLAG_NONE
        NGHTTP2_NV_FLAG_NO_INDEX

        NGHTTP2_DATA_FLAG_EOF
        NGHTTP2_DATA_FLAG_NO_COPY
        NGHTTP2_DATA_FLAG_NO_END_STREAM

        NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS
        NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE
        NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE
        NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL
        NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES

        NGHTTP2_NO_ERROR
        NGHTTP2_PROTOCOL_ERROR
        NGHTTP2_INTERNAL_ERROR
        NGHTTP2_STREAM_CLOSED
        NGHTTP2_ENHANCE_YOUR_CALM

        NGHTTP2_ERR_DEFERRED
        NGHTTP2_ERR_PAUSE
        NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE
        NGHTTP2_ERR_NOMEM
        NGHTTP2_ERR_CALLBACK_FAILURE
        NGHTTP2_ERR_BAD_CLIENT_MAGIC

    ctypedef struct nghttp2_mem:
        void *mem_user_data
        void *(*malloc)(size_t size, void *) noexcept
        void (*free)(void *, void *) noexcept
        void *(*calloc)(size_t count, size_t size, void *) noexcept
        void *(*realloc)(void *, size_t size, void *) noexcept

    ctypedef struct nghttp2_session
    ctypedef struct nghttp2_session_callbacks
    ctypedef struct nghttp2_option

    ctypedef struct nghttp2_info:
        const char *version_str

    ctypedef struct nghttp2_settings_entry:
        int32_t settings_id
        uint32_t value

    ctypedef struct nghttp2_nv:
        uint8_t *name
        uint8_t *value
        size_t namelen
        size_t valuelen
        uint8_t flags

    ctypedef struct nghttp2_extpri:
        uint32_t urgency
        int inc

    ctypedef union nghttp2_data_source:
        void *ptr

    ctypedef struct nghttp2_frame_hd:
        size_t length
        int32_t stream_id
        uint8_t type
        uint8_t flags

    ctypedef struct nghttp2_data:
        nghttp2_frame_hd hd
        size_t padlen

    ctypedef struct nghttp2_headers:
        nghttp2_frame_hd hd
        int cat

    ctypedef struct nghttp2_goaway:
        uint32_t error_code
        uint8_t *opaque_data
        size_t opaque_data_len

    ctypedef union nghttp2_frame:
        nghttp2_frame_hd hd
        nghttp2_data data
        nghttp2_headers headers
        nghttp2_goaway goaway

    # An exception of Python's leaves a callback as NGHTTP2_ERR_CALLBACK_FAILURE, which ends the
    # call of the library that it came from, and goes on from there.
    ctypedef ssize_t (*nghttp2_data_source_read_callback)(
        nghttp2_session *, int32_t stream_id, uint8_t *buf, size_t length, uint32_t *data_flags,
        nghttp2_data_source *, void *user_data) except -902
    ctypedef int (*nghttp2_on_begin_headers_callback)(
        nghttp2_session *, const nghttp2_frame *, void *user_data) except -902
    ctypedef int (*nghttp2_on_header_callback)(
        nghttp2_session *, const nghttp2_frame *, const uint8_t *name, size_t namelen,
        const uint8_t *value, size_t valuelen, uint8_t flags, void *user_data) except -902
    ctypedef int (*nghttp2_on_frame_recv_callback)(
        nghttp2_session *, const nghttp2_frame *, void *user_data) except -902
    ctypedef int (*nghttp2_on_invalid_frame_recv_callback)(
        nghttp2_session *, const nghttp2_frame *, int lib_error_code, void *user_data) except -902
    ctypedef int (*nghttp2_on_data_chunk_recv_callback)(
        nghttp2_session *, uint8_t flags, int32_t stream_id, const uint8_t *data, size_t length,
        void *user_data) except -902
    ctypedef int (*nghttp2_on_stream_close_callback)(
        nghttp2_session *, int32_t stream_id, uint32_t error_code, void *user_data) except -902
    ctypedef int (*nghttp2_on_frame_send_callback)(
        nghttp2_session *, const nghttp2_frame *, void *user_data) except -902
    ctypedef int (*nghttp2_on_frame_not_send_callback)(
        nghttp2_session *, const nghttp2_frame *, int lib_error_code, void *user_data) except -902
    ctypedef int (*nghttp2_send_data_callback)(
        nghttp2_session *, nghttp2_frame *, const uint8_t *framehd, size_t length,
        nghttp2_data_source *, void *user_data) except -902

    ctypedef struct nghttp2_data_provider:
        nghttp2_data_source source
        nghttp2_data_source_read_callback read_callback

    nghttp2_info *nghttp2_version(int least_version)
    const char *nghttp2_strerror(int lib_error_code)
    const char *nghttp2_http2_strerror(uint32_t error_code)
    bint nghttp2_is_fatal(int lib_error_code)

    int nghttp2_session_callbacks_new(nghttp2_session_callbacks **)
    void nghttp2_session_callbacks_set_on_begin_headers_callback(
        nghttp2_session_callbacks *, nghttp2_on_begin_headers_callback)
    void nghttp2_session_callbacks_set_on_header_callback(
        nghttp2_session_callbacks *, nghttp2_on_header_callback)
    void nghttp2_session_callbacks_set_on_invalid_header_callback(
        nghttp2_session_callbacks *, nghttp2_on_header_callback)
    void nghttp2_session_callbacks_set_on_frame_recv_callback(
        nghttp2_session_callbacks *, nghttp2_on_frame_recv_callback)
    void nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(
        nghttp2_session_callbacks *, nghttp2_on_invalid_frame_recv_callback)
    void nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        nghttp2_session_callbacks *, nghttp2_on_data_chunk_recv_callback)
    void nghttp2_session_callbacks_set_on_stream_close_callback(
        nghttp2_session_callbacks *, nghttp2_on_stream_close_callback)
    void nghttp2_session_callbacks_set_on_frame_send_callback(
        nghttp2_session_callbacks *, nghttp2_on_frame_send_callback)
    void nghttp2_session_callbacks_set_on_frame_not_send_callback(
        nghttp2_session_callbacks *, nghttp2_on_frame_not_send_callback)
    void nghttp2_session_callbacks_set_send_data_callback(
        nghttp2_session_callbacks *, nghttp2_send_data_callback)

    int nghttp2_option_new(nghttp2_option **)
    void nghttp2_option_set_no_auto_window_update(nghttp2_option *, int)
    void nghttp2_option_set_max_send_header_block_length(nghttp2_option *, size_t)

    int nghttp2_session_server_new3(
        nghttp2_session **, const nghttp2_session_callbacks *, void *user_data,
        const nghttp2_option *, nghttp2_mem *)
    void nghttp2_session_del(nghttp2_session *)
    ssize_t nghttp2_session_mem_recv(
        nghttp2_session *, const uint8_t *data, size_t length) except? -902
    ssize_t nghttp2_session_mem_send(nghttp2_session *, const uint8_t **data) except? -902
    int nghttp2_session_want_read(nghttp2_session *)
    int nghttp2_session_want_write(nghttp2_session *)
    int nghttp2_session_resume_data(nghttp2_session *, int32_t stream_id)
    int nghttp2_session_consume_connection(nghttp2_session *, size_t)
    int nghttp2_session_consume_stream(nghttp2_session *, int32_t stream_id, size_t)
    int nghttp2_session_set_local_window_size(
        nghttp2_session *, uint8_t flags, int32_t stream_id, int32_t window_size)
    int nghttp2_session_change_extpri_stream_priority(
        nghttp2_session *, int32_t stream_id, const nghttp2_extpri *, int ignore_client_signal)
    int nghttp2_session_terminate_session(nghttp2_session *, uint32_t error_code)
    int32_t nghttp2_session_get_last_proc_stream_id(nghttp2_session *)

    int nghttp2_submit_settings(
        nghttp2_session *, uint8_t flags, const nghttp2_settings_entry *, size_t)
    int nghttp2_submit_headers(
        nghttp2_session *, uint8_t flags, int32_t stream_id, const void *pri_spec,
        const nghttp2_nv *, size_t, void *stream_user_data)
    int nghttp2_submit_response(
        nghttp2_session *, int32_t stream_id, const nghttp2_nv *, size_t,
        const nghttp2_data_provider *)
    int nghttp2_submit_trailer(nghttp2_session *, int32_t stream_id, const nghttp2_nv *, size_t)
    int nghttp2_submit_rst_stream(
        nghttp2_session *, uint8_t flags, int32_t stream_id, uint32_t error_code)
    int nghttp2_submit_ping(nghttp2_session *, uint8_t flags, const uint8_t *opaque_data)
    int nghttp2_submit_shutdown_notice(nghttp2_session *)
    int nghttp2_submit_goaway(
        nghttp2_session *, uint8_t flags, int32_t last_stream_id, uint32_t error_code,
        const uint8_t *opaque_data, size_t)


cdef extern from *:
    """
    /* There since 1.57, and in older ones that were mended for CVE-2023-44487. */
    extern void nghttp2_option_set_stream_reset_rate_limit(
        nghttp2_option *option, uint64_t burst, uint64_t rate) __attribute__((weak));

    static void bound_no_resets(nghttp2_option *option) {
        if (nghttp2_option_set_stream_reset_rate_limit) {
            nghttp2_option_set_stream_reset_rate_limit(option, INT64_MAX, INT64_MAX);
        }
    }

    /* There since 1.61, and in older ones that were mended for CVE-2024-28182; others have no bound. */
    extern void nghttp2_option_set_max_continuations(
        nghttp2_option *option, size_t val) __attribute__((weak));

    static void bound_continuations(nghttp2_option *option, size_t most) {
        if (nghttp2_option_set_max_continuations) {
            nghttp2_option_set_max_continuations(option, most);
        }
    }
    """
    void bound_no_resets(nghttp2_option *)
    void bound_continuations(nghttp2_option *, size_t)
