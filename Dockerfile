# apfproxy as a container: docker build -t apfproxy . && docker run --rm apfproxy --help
FROM python:3.11-slim AS build
WORKDIR /source
COPY . .
RUN python -m venv /opt/apfproxy \
    && /opt/apfproxy/bin/pip install --no-cache-dir --disable-pip-version-check .

FROM python:3.11-slim
COPY --from=build /opt/apfproxy /opt/apfproxy
COPY --from=build /source/LICENSE /usr/share/doc/apfproxy/LICENSE
ENV PATH=/opt/apfproxy/bin:$PATH \
    PYTHONUNBUFFERED=1
# A number, so that Kubernetes can check runAsNonRoot.
USER 65532:65532
# Clients, the admin listener (metrics, health, dumps, objects), and the API server.
EXPOSE 8080 8081 6443
# Of the admin listener on its default port; where you give another --admin, give another check, too.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["python", "-c", \
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8081/livez', timeout=2)"]
# SIGTERM, Docker's default, drains.
ENTRYPOINT ["apfproxy"]
CMD ["--help"]
