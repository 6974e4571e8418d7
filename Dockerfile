# boatswain's image: two static binaries, the certificates that a cluster's address may need, and nothing else; no shell,
# not root. Images of executors copy the agent from it:
#
#   COPY --from=boatswain /usr/bin/boatswain-agent /usr/bin/
#
# To build and try it:
#
#   docker build --tag boatswain .
#   docker run --rm boatswain --version
#
# scripts/rootfs builds the same root file system without a container engine, and checks it.

# By digest (of the index of all architectures), so that a build is that of this day wherever it runs. The release workflow
# puts what scripts/release has built in the place of this stage.
FROM rust:1.95-slim-bookworm@sha256:d7482085ff5b415f84dba5647ae71606650bdef00db7aeb69f4b3d170c3e4082 AS build
RUN rustup target add "$(uname -m)-unknown-linux-musl" \
    && apt-get update \
    && apt-get install --yes --no-install-recommends musl-tools ca-certificates \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN scripts/rootfs /rootfs

FROM scratch
COPY --from=build /rootfs/ /
# By number, so that runAsNonRoot can be checked without a list of users.
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/usr/bin/boatswain"]
