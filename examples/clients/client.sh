#!/bin/sh
# An executor that speaks to boatswain by itself, with curl: docs/protocol.md. It registers, says that it is alive,
# drains when it is told to, and says goodbye. As an executor's command: ["/bin/sh", "/where/it/is/client.sh"].
set -eu

# Kubernetes writes the token's file anew from time to time.
token() {
    if [ -n "${BOATSWAIN_TOKEN:-}" ]; then
        printf %s "$BOATSWAIN_TOKEN"
    elif [ -e "$BOATSWAIN_TOKEN_FILE" ]; then
        cat "$BOATSWAIN_TOKEN_FILE"
    else
        cat "${DEVCLUSTER_ROOT:-}$BOATSWAIN_TOKEN_FILE"
    fi
}

# Whom curl trusts as the driver: only with TLS.
trust() {
    [ -n "${BOATSWAIN_CA_FILE:-}" ] || return 0
    if [ -e "$BOATSWAIN_CA_FILE" ]; then
        printf 'cacert = "%s"\n' "$BOATSWAIN_CA_FILE"
    else
        printf 'cacert = "%s"\n' "${DEVCLUSTER_ROOT:-}$BOATSWAIN_CA_FILE"
    fi
}

# Says something; prints what the driver has to say, or nothing where it is away. The token is no argument, which
# everybody on the machine could read.
say() {
    { printf 'header = "Authorization: Bearer %s"\n' "$(token)" && trust; } |
        curl --silent --max-time 10 --config - --data "$1" "$BOATSWAIN_DRIVER_URL/v1/session/messages" || true
}

# A number in an answer, by its name.
number() {
    printf %s "$1" | sed -n "s/.*\"$2\":\([0-9]*\).*/\1/p"
}

register() {
    pause=1
    while :; do
        answer=$(say "{\"type\": \"register\", \"app\": \"$BOATSWAIN_APP_ID\", \"executor\": $BOATSWAIN_EXECUTOR_ID,
            \"pod_uid\": \"$BOATSWAIN_POD_UID\", \"attributes\": {\"client\": \"shell\"}}")
        case $answer in
            *'"type":"registered"'*) break ;;
            *'"exit":true'*) echo "not wanted: $answer"; exit 1 ;;
        esac
        echo "not registered: $answer"
        sleep "$pause"
        [ "$pause" -ge 10 ] || pause=$((pause * 2))
    done
    session=$(number "$answer" session)
    seconds=$(($(number "$answer" heartbeat_interval_ms) / 1000))
    echo "registered: $answer"
}

register
while :; do
    case $answer in
        *'"type":"stop"'* | *'"type":"decommission"'*)
            # There is nothing under way that would have to be finished.
            echo "told to go: $answer"
            say "{\"type\": \"exiting\", \"session\": $session, \"code\": 0}" >/dev/null
            exit 0
            ;;
        *'"type":"register"'* | *'"type":"superseded"'*) register ;;
        *)
            sleep "$seconds"
            answer=$(say "{\"type\": \"heartbeat\", \"session\": $session, \"busy_slots\": 0}")
            ;;
    esac
done
