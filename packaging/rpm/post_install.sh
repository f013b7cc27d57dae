systemd-sysusers ringscope.conf || :
systemd-tmpfiles --create ringscope.conf || :
if [ "$1" = 1 ]; then
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload || :
        systemctl --no-reload preset ringscope-serve.service ringscope-agent.service ringscope-drain.timer >/dev/null 2>&1 || :
    fi
    echo 'ringscope is installed and nothing is started. Next, on the machine of the daemon:'
    echo '    systemctl enable --now ringscope-serve'
    echo 'and on each host, once RINGSCOPE_DAEMON in /etc/ringscope/agent.env names the daemon:'
    echo '    systemctl enable --now ringscope-agent'
fi
