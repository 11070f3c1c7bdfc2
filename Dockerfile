# The gateway as an image. Written without a container engine at hand: untested.
FROM python:3.12-slim AS build
WORKDIR /src
COPY . .
RUN python -m venv /opt/penstock \
 && /opt/penstock/bin/pip install --no-cache-dir --constraint constraints.txt '.[cli,client,server,postgres]'

FROM python:3.12-slim
RUN useradd --system --create-home --home-dir /data penstock
COPY --from=build /opt/penstock /opt/penstock
USER penstock
WORKDIR /data
VOLUME /data
EXPOSE 8787
# Beyond loopback a key is needed: give PENSTOCK_API_KEY, or a penstock.toml with keys in /data.
ENV PENSTOCK_HOST=0.0.0.0
HEALTHCHECK --interval=10s --timeout=3s CMD ["/opt/penstock/bin/python", "-c", \
  "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8787/health/ready', timeout=2)"]
ENTRYPOINT ["/opt/penstock/bin/penstock", "serve"]
