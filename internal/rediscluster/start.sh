#!/bin/sh
# A Redis Cluster of three nodes on loopback, for tests.
#
#   start.sh start DIR [PORT PORT PORT]   starts it, its files in DIR, and prints its URL
#   start.sh stop DIR                     stops the nodes that were started with DIR
#
# Without ports it looks for free ones. It needs redis-server and redis-cli,
# 7.0 or newer. The nodes keep nothing on disk.
set -eu

usage() {
	sed -n '4,5s/^# *//p' "$0" >&2
	exit 2
}

bus() { echo $(($1 + 10000)); }

# start_node tries the port: redis-server refuses one that is taken, and writes
# its pid only once it listens.
start_node() {
	redis-server --bind 127.0.0.1 --port "$1" --cluster-enabled yes --cluster-port "$(bus "$1")" \
		--cluster-config-file "nodes-$1.conf" --cluster-node-timeout 2000 \
		--save '' --appendonly no --daemonize yes --dir "$dir" \
		--pidfile "$dir/$1.pid" --logfile "$dir/$1.log" >/dev/null
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		if [ -s "$dir/$1.pid" ] && redis-cli -h 127.0.0.1 -p "$1" PING >/dev/null 2>&1; then
			return 0
		fi
		sleep 0.1
	done
	return 1
}

start_any() {
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		port=$((20000 + $(od -An -N2 -tu2 /dev/urandom) % 20000))
		if start_node "$port"; then
			return 0
		fi
	done
	echo "no free port found, see the logs in $dir" >&2
	return 1
}

start() {
	mkdir -p "$dir"
	dir=$(cd "$dir" && pwd -P)
	trap 'stop' EXIT
	ports=
	if [ $# -eq 0 ]; then
		for _ in 1 2 3; do
			start_any
			ports="$ports $port"
		done
	else
		[ $# -eq 3 ] || usage
		for port in "$@"; do
			start_node "$port" || { cat "$dir/$port.log" >&2; exit 1; }
			ports="$ports $port"
		done
	fi
	nodes=
	for port in $ports; do
		nodes="$nodes 127.0.0.1:$port"
	done
	# shellcheck disable=SC2086 # a list of words
	redis-cli --cluster create $nodes --cluster-yes >"$dir/create.log" || { cat "$dir/create.log" >&2; exit 1; }
	wait_ready
	trap - EXIT
	# shellcheck disable=SC2086
	set -- $nodes
	echo "redis+cluster://$1?addr=$2&addr=$3"
}

wait_ready() {
	for port in $ports; do
		tries=0
		until redis-cli -h 127.0.0.1 -p "$port" CLUSTER INFO | grep -q '^cluster_state:ok'; do
			tries=$((tries + 1))
			[ $tries -lt 100 ] || { echo "node $port does not come up" >&2; exit 1; }
			sleep 0.1
		done
	done
}

stop() {
	for file in "$dir"/*.pid; do
		[ -e "$file" ] || continue
		port=$(basename "$file" .pid)
		kill "$(cat "$file")" 2>/dev/null || true
		rm -f "$file" "$dir/nodes-$port.conf"
	done
}

[ $# -ge 2 ] || usage
command=$1 dir=$2
shift 2
case $command in
start) start "$@" ;;
stop) stop ;;
*) usage ;;
esac
