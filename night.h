bash: nightR.sh: No such file or directory
