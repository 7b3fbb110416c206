# The page for hosts other than Spaces, on a CPU; docs/container.md says how to build and run it.
FROM python:3.11-slim
RUN useradd --create-home --uid 1000 lens && install -d -o lens /weights
WORKDIR /srv/speclens
COPY pre-requirements.txt requirements.txt ./
# For a GPU: --build-arg TORCH=requirements.txt
ARG TORCH=pre-requirements.txt
RUN pip install --no-cache-dir -r $TORCH -r requirements.txt
COPY . .
USER lens
ENV HOST=0.0.0.0 PORT=7860 SPECLENS_CACHE=/weights HF_HOME=/weights/hub PYTHONUNBUFFERED=1 \
    SPECLENS_LOG=1 SPECLENS_FETCH=0 SPECLENS_OWN_MODELS=0 SPECLENS_LAB_SECONDS=0
VOLUME /weights
EXPOSE 7860
HEALTHCHECK --interval=30s --start-period=60s \
    CMD python -c "import os, urllib.request as u; u.urlopen(f'http://127.0.0.1:{os.environ[\"PORT\"]}/healthz', timeout=5)"
CMD ["python", "app.py"]
