# apfproxy as a container: docker build -t apfproxy . && docker run --rm apfproxy --help
#
# To pin the base by its digest: docker build --build-arg PYTHON=python@sha256:... -t apfproxy .
ARG PYTHON=python:3.11.13-slim-bookworm
FROM ${PYTHON} AS build
# The compiler stays in this stage; the image has Python's headers already.
RUN apt-get update && apt-get install -y --no-install-recommends \
    gcc libc6-dev libnghttp2-dev
WORKDIR /source
COPY . .
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
# Each package is the one with the hash that the files have.
RUN python -m venv /opt/build \
    && /opt/build/bin/pip install --require-hashes -r .ci/requirements-build.txt \
    && HATCH_BUILD_HOOKS_ENABLE=1 \
        /opt/build/bin/pip wheel --no-deps --no-build-isolation -w /opt/wheel . \
    && python -m venv /opt/apfproxy \
    && /opt/apfproxy/bin/pip install --require-hashes -r .ci/requirements-image.txt \
    && /opt/apfproxy/bin/pip install --no-deps /opt/wheel/*.whl \
    && /opt/apfproxy/bin/apfproxy --version | grep 'compiled.*HTTP/2 by'

FROM ${PYTHON}
COPY --from=build /opt/apfproxy /opt/apfproxy
COPY --from=build /source/LICENSE /usr/share/doc/apfproxy/LICENSE
COPY --from=build /source/config/container-health /usr/local/bin/container-health
ENV PATH=/opt/apfproxy/bin:$PATH \
    PYTHONUNBUFFERED=1
# A number, so that Kubernetes can check runAsNonRoot.
USER 65532:65532
# Clients, the admin listener (metrics, health, dumps, objects), and the API server.  Both listeners
# of the proxy are on 127.0.0.1 unless told otherwise; for others to reach them:
#   serve --listen 0.0.0.0:8080 --admin 0.0.0.0:8081
EXPOSE 8080 8081 6443
# Of the admin listener on its default port; with another --admin give another port.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["container-health", "8081"]
# SIGTERM, Docker's default, drains.
ENTRYPOINT ["apfproxy"]
CMD ["--help"]
