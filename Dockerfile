# watchkeeper as an image: `docker build -t watchkeeper .`, then `docker run --rm --init watchkeeper demo`.

FROM python:3.13-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
RUN ["python", "-m", "venv", "/opt/watchkeeper"]
# The dependencies first: this layer is kept until the lock changes.
COPY lock/demo.txt lock/
RUN ["/opt/watchkeeper/bin/pip", "install", "--require-hashes", "-r", "lock/demo.txt"]
COPY pyproject.toml README.md LICENSE ./
COPY supervisor supervisor
COPY tools tools
COPY benchmarks benchmarks
RUN ["/opt/watchkeeper/bin/pip", "install", "--no-deps", "--no-build-isolation", "."]

FROM python:3.13-slim
# The model's server is checked against the system's certificates (httpx2 uses the trust store of the OS).
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 watchkeeper \
    && useradd --uid 10001 --gid 10001 --home-dir /workspace --create-home --shell /usr/sbin/nologin watchkeeper
COPY --from=build /opt/watchkeeper /opt/watchkeeper
ENV PATH=/opt/watchkeeper/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /workspace
USER 10001:10001
ENTRYPOINT ["watchkeeper"]
CMD ["--help"]
