# The daemon as a container image: docker build --tag parhelion .
# No local chain: an upstream is required (SOLANA_RPC_URL, or upstream.urls in a file mounted over config/parhelion.yaml).

# An exact version of the current LTS line. A tag can be moved, a digest cannot; to build from what you have checked:
#   docker buildx imagetools inspect node:24.21.0-bookworm --format '{{.Manifest.Digest}}'   (and -slim), written behind the tag as @sha256:…
FROM node:24.21.0-bookworm AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
# better-sqlite3 is compiled here where it has no ready binary; this image has python3, make and g++.
RUN npm ci
COPY . .
# The image holds what the npm package holds, and nothing else of the checkout.
RUN npm pack --pack-destination /tmp \
    && mkdir /opt/parhelion \
    && tar --extract --gzip --file /tmp/parhelion-*.tgz --directory /opt/parhelion --strip-components 1 \
    && npm prune --omit=dev \
    && mv node_modules /opt/parhelion/ \
    && chmod 0755 /opt/parhelion/dist/src/cli/main.js \
    && install --directory --mode 0700 /opt/data

FROM node:24.21.0-bookworm-slim
# Loopback of a container is reached by nobody: who may reach the API decides what is published. The admin listener stays on loopback;
# PARHELION_ADMIN__HOST=0.0.0.0 opens it to the network of the container, for Prometheus.
ENV NODE_ENV=production \
    PARHELION_DATA_DIR=/data \
    PARHELION_HTTP__HOST=0.0.0.0
COPY --from=build /opt/parhelion /opt/parhelion
COPY --from=build --chown=node:node /opt/data /data
RUN ln -s /opt/parhelion/dist/src/cli/main.js /usr/local/bin/parhelion
USER node
WORKDIR /data
VOLUME /data
EXPOSE 8787 8788
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["parhelion", "healthcheck"]
ENTRYPOINT ["parhelion"]
CMD ["serve", "--config", "/opt/parhelion/config/parhelion.yaml"]
