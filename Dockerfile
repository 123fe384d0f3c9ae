# syntax=docker/dockerfile:1
# Endive with Spark and a Java, for `endive serve`, `endive sweep` and every other command.
#   docker build -t endive .
#   docker run --rm -v "$PWD:/work" endive run endive.toml
#   docker run --rm -v "$PWD:/work" endive sweep study.toml
#   docker run --rm --network host endive serve --no-open      # listens on the loopback interface only
# `sh verification/container_steps.sh DIRECTORY` runs the same steps without a container.

FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
COPY examples examples
RUN python -m venv /opt/endive \
    && /opt/endive/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt '.[probe]'

FROM python:3.13-slim
RUN useradd --create-home --uid 10001 endive \
    && mkdir /work \
    && chown endive:endive /work
COPY --from=build /opt/endive /opt/endive
ENV PATH=/opt/endive/bin:$PATH
USER 10001
WORKDIR /work
ENTRYPOINT ["endive"]
CMD ["--help"]
