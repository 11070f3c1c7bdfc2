# The gateway as an image: docker build --tag penstock .
# Tested with buildah and an image of Debian 12 with Python 3.11 in the place of python:3.12-slim:
# the build, the entry point, the user and the health check. See docs/gateway/deployment.md.
FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
RUN python -m venv /opt/penstock \
 && /opt/penstock/bin/pip install --no-cache-dir --constraint constraints.txt '.[cli,client,server,postgres,redis]'

FROM python:3.12-slim
RUN useradd --uid 10001 --user-group --create-home --home-dir /data penstock
COPY --from=build /opt/penstock /opt/penstock
# A number, which Kubernetes can tell from root.
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8787
# Beyond loopback a key is needed: give PENSTOCK_API_KEY, or a penstock.toml with keys in /data.
ENV PENSTOCK_HOST=0.0.0.0 XDG_STATE_HOME=/data
HEALTHCHECK --interval=10s --timeout=3s CMD ["/opt/penstock/bin/python", "-c", \
  "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8787/health/ready', timeout=2)"]
ENTRYPOINT ["/opt/penstock/bin/penstock", "serve"]
