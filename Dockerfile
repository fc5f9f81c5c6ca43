# syntax=docker/dockerfile:1
FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY src ./src
COPY migrations ./migrations
RUN npm run build

FROM node:24-slim AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# Without the embedded Postgres of the demo: 60 MB that a server never needs.
RUN npm ci --no-audit --no-fund --omit=dev --omit=optional

FROM node:24-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=packages /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY package.json ./
# A user without rights and without a home; the configuration is mounted at /work.
USER node
WORKDIR /work
EXPOSE 8080
ENTRYPOINT ["node", "/app/dist/src/main.js"]
CMD ["serve"]
