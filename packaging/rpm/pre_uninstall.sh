if [ "$1" = 0 ] && [ -d /run/systemd/system ]; then
    systemctl --no-reload disable --now ringscope-serve.service ringscope-agent.service ringscope-drain.timer || :
fi
