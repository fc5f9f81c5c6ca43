# syntax=docker/dockerfile:1
# Stages: the build, the production dependencies, and the image made of both.

FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY src ./src
COPY migrations ./migrations
COPY scripts/build.ts ./scripts/build.ts
RUN npm run build

FROM node:24-slim AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# Without the demo's embedded Postgres: 60 MB that a server never needs.
RUN npm ci --no-audit --no-fund --omit=dev --omit=optional

FROM node:24-slim
ENV NODE_ENV=production \
    FILLRATE_HOST=0.0.0.0 \
    FILLRATE_PORT=8080
WORKDIR /app
COPY --from=packages /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY assets ./assets
COPY package.json ./
# A non-root user without write access; the configuration is mounted at /work.
USER node
WORKDIR /work
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + process.env.FILLRATE_PORT + '/healthz').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "/app/dist/src/main.js"]
CMD ["serve"]
