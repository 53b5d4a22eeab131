# Installs in the style of upstream's Dockerfiles: pip resolves in one RUN, without hashes and caches.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
ARG BASH_ENV=/run/secrets/network DEBIAN_FRONTEND=noninteractive TORCH_DEVICE_BACKEND_AUTOLOAD=0 \
    PIP_BREAK_SYSTEM_PACKAGES=1
ARG SYSTEM_PACKAGES
RUN --mount=type=secret,id=network --mount=type=secret,id=ca \
    apt-get update && apt-get install --yes --no-install-recommends ${SYSTEM_PACKAGES} && rm -rf /var/lib/apt/lists/*
COPY . /opt/context
ARG FIRST PLUGIN REQUIREMENTS LAST
RUN --mount=type=secret,id=network --mount=type=secret,id=ca \
    pip install --no-cache-dir --constraint /opt/context/constraints.txt ${FIRST} && \
    pip install --no-cache-dir --no-deps ${PLUGIN} && \
    pip install --no-cache-dir --constraint /opt/context/constraints.txt ${REQUIREMENTS} && \
    pip install --no-cache-dir --no-deps /opt/context/engine && \
    pip install --no-cache-dir --constraint /opt/context/constraints.txt ${LAST} && \
    pip install --no-cache-dir --no-deps --editable /opt/context/framework
