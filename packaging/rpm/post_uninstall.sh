if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || :
    if [ "$1" != 0 ]; then
        systemctl try-restart ringscope-serve.service ringscope-agent.service || :
    fi
fi
if [ "$1" = 0 ]; then
    # Data stays, and the users that own it. Segments of jobs that run stay too.
    rmdir --ignore-fail-on-non-empty /dev/shm/ringscope 2>/dev/null || :
    # The package has these folders' files, and not the folders.
    rmdir --ignore-fail-on-non-empty /etc/ringscope /usr/share/doc/ringscope /usr/share/licenses/ringscope \
        /usr/share/ringscope/slurm /usr/share/ringscope 2>/dev/null || :
fi
