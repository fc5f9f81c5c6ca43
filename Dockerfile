# syntax=docker/dockerfile:1
# Stages: the build, which runs on the builder's own architecture because what it makes has none, and the image.

# The exact version of package-lock.json. By digest: docker build --build-arg NODE=node:24.21.0-slim@sha256:…
ARG NODE=node:24.21.0-slim

FROM --platform=$BUILDPLATFORM ${NODE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY src ./src
COPY migrations ./migrations
COPY scripts/build.ts ./scripts/
RUN npm run build && npm prune --omit=dev --omit=optional

FROM ${NODE}
ARG VERSION=1.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Fillrate" \
      org.opencontainers.image.description="Enriches CRM records in Postgres from an HTTP enrichment API" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENV NODE_ENV=production \
    FILLRATE_HOST=0.0.0.0 \
    FILLRATE_PORT=8080
WORKDIR /app
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY assets ./assets
COPY package.json package-lock.json LICENSE fillrate.schema.json ./
COPY scripts/healthcheck.sh ./healthcheck.sh
# A non-root user without write access; the configuration is mounted at /work.
USER node
WORKDIR /work
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["bash", "/app/healthcheck.sh"]
ENTRYPOINT ["node", "/app/dist/src/main.js"]
CMD ["start"]
