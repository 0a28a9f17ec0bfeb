# A node of Althing, or a registry, from programs that are built already: `make image` (scripts/image.sh) puts them into the
# build context. Nothing is compiled or downloaded here.
# BASE has glibc and libstdc++ of the machine that built the programs or newer, bash, coreutils and util-linux.
ARG BASE=debian:bookworm-slim
FROM ${BASE}
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY start althing althing-keeper althing-registry /usr/local/bin/
# The folders belong to the user: a new volume takes that over.
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin althing \
 && install -d -o althing -g althing -m 0700 /data /home/althing/.config/althing \
 && install -d -o althing -g althing -m 0755 /network
USER 10001:10001
ENV HOME=/home/althing ALTHING_DATA=/data
WORKDIR /home/althing
# A node's key, database and control socket, or a registry's log and key. Two more folders are worth keeping:
# .config/althing has the owner's keys, which the owner's nodes share, and althing.toml; /network has the name of the
# network, for a registry beside the nodes.
VOLUME ["/data"]
# Nodes; the HTTP gateway; a registry.
EXPOSE 7421/tcp 7421/udp 7420/tcp 7480/tcp
ENTRYPOINT ["/usr/local/bin/start"]
CMD ["up"]
