# The daemon as a container image: docker build --tag parhelion .
# An upstream is required: SOLANA_RPC_URL, or upstream.urls in a file mounted over /opt/parhelion/config/parhelion.yaml.

# An exact version of the current LTS line. A tag can be moved, a digest cannot; to build from what you have checked:
#   docker buildx imagetools inspect node:24.21.0-bookworm-slim --format '{{.Manifest.Digest}}', written behind the tag as @sha256:…
FROM node:24.21.0-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
# Nothing is compiled: SQLite has a ready binary for this Node.
RUN npm ci --ignore-scripts
COPY . .
# The image holds the program and the packages it loads, as the tarball of a release does, and nothing else of the checkout.
RUN npm run package -- --only tarball --node /usr/local/bin/node --output /tmp/packages \
    && mkdir /tmp/tree \
    && tar --extract --gzip --file /tmp/packages/parhelion-*.tar.gz --directory /tmp/tree --strip-components 1 \
    && mv /tmp/tree/lib/parhelion /opt/parhelion \
    && chmod 0755 /opt/parhelion/dist/src/cli/main.js \
    && install --directory --mode 0700 /opt/data

FROM node:24.21.0-bookworm-slim
# Loopback of a container is reached by nobody: who may reach the API decides what is published. The admin listener stays on loopback;
# PARHELION_ADMIN__HOST=0.0.0.0 opens it to the network of the container, so that its port can be published (compose.yaml does).
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
