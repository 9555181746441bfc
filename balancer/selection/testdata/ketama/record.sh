#!/usr/bin/env bash
# Asks a real nginx which upstream each of 1,000 keys goes to under
# "hash KEY consistent", and records the answers for TestP30Golden:
#
#   ./record.sh > golden.txt
#
# Needs nginx and curl. Everything runs on loopback, under a temporary directory,
# and is gone afterwards. It is run by hand: tests read what was recorded.
set -euo pipefail

# The upstreams: a name, then its servers as in nginx's configuration.
sets=(
  "equal   127.0.0.1:18801 127.0.0.1:18802 127.0.0.1:18803"
  "ten     127.0.0.11:18810 127.0.0.12:18810 127.0.0.13:18810 127.0.0.14:18810 127.0.0.15:18810 127.0.0.16:18810 127.0.0.17:18810 127.0.0.18:18810 127.0.0.19:18810 127.0.0.20:18810"
  "nine    127.0.0.11:18810 127.0.0.12:18810 127.0.0.13:18810 127.0.0.15:18810 127.0.0.16:18810 127.0.0.17:18810 127.0.0.18:18810 127.0.0.19:18810 127.0.0.20:18810"
  "weights 127.0.0.1:18821 127.0.0.1:18822,weight=2 127.0.0.1:18823,weight=5 127.0.0.1:18824,weight=100"
  "names   localhost:18831 127.0.0.1:18832 unix:one.sock unix:two.sock,weight=3"
)

key() { # one of several shapes and lengths, by number
  case $(($1 % 4)) in
    0) printf 'user-%d' "$1" ;;
    1) printf 'tenant/%d/object/%d' $(($1 % 7)) "$1" ;;
    2) printf '%x' $(($1 * 2654435761 % 4294967296)) ;;
    3) printf 'a-long-key-of-more-than-sixty-four-bytes/which-takes-another-path-in-crc32/%d' "$1" ;;
  esac
}

dir=$(mktemp -d)
chmod 755 "$dir" # for the worker, which may be another user
nginx=
finish() {
  [[ -z $nginx ]] || { kill "$nginx"; wait "$nginx" || true; }
  rm -rf "$dir"
}
trap finish EXIT
cd "$dir" # where unix sockets with relative paths go

{
  echo "daemon off; pid $dir/pid; error_log stderr warn; worker_processes 1;"
  echo 'events { worker_connections 512; }'
  echo 'http {'
  echo "  access_log off; client_body_temp_path $dir/b; proxy_temp_path $dir/p; fastcgi_temp_path $dir/f; uwsgi_temp_path $dir/u; scgi_temp_path $dir/s;"
  listening=' '
  for set in "${sets[@]}"; do
    read -r name servers <<<"$set"
    echo "  upstream $name { hash \$http_x_key consistent;"
    for server in $servers; do echo "    server ${server/,/ } max_fails=0;"; done
    echo '  }'
    for server in $servers; do
      address=${server%%,*}
      [[ $listening != *" $address "* ]] || continue
      listening+="$address "
      echo "  server { listen $address; return 200 $address; }"
    done
  done
  echo '  server { listen unix:front.sock; keepalive_requests 100000;'
  for set in "${sets[@]}"; do echo "    location = /${set%% *} { proxy_pass http://${set%% *}; }"; done
  echo '  }'
  echo '}'
} >nginx.conf

nginx -p "$dir" -c "$dir/nginx.conf" &
nginx=$!
until [[ -S front.sock ]]; do
  kill -0 "$nginx"
  sleep 0.1
done

echo "# Recorded by record.sh from $(nginx -v 2>&1 | sed 's/.*: //')."
echo '# "set" lines give the servers of an upstream; then, for each key, the position'
echo '# of the server it went to in each of the sets.'
for set in "${sets[@]}"; do
  read -r name servers <<<"$set"
  echo "set $name $servers"
done

between=
for i in {1..1000}; do
  for set in "${sets[@]}"; do
    printf '%s' "$between"
    between=$'next\n'
    printf 'url = "http://front/%s"\nunix-socket = "front.sock"\nheader = "X-Key: %s"\nwrite-out = "\\n"\nfail\n' "${set%% *}" "$(key "$i")"
  done
done >requests
curl -sS --config requests >answers

exec 3<answers
for i in {1..1000}; do
  line=$(key "$i")
  for set in "${sets[@]}"; do
    read -r _ servers <<<"$set"
    read -r answer <&3
    position=0 found=
    for server in $servers; do
      [[ ${server%%,*} != "$answer" ]] || found=$position
      position=$((position + 1))
    done
    line+=" ${found:?no server $answer in $set}"
  done
  echo "$line"
done
