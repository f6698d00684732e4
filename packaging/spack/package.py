"""Spack's recipe of pagewire, as a package of its Python build system. It has no address to fetch
from: `spack dev-build` builds a checkout with it (docs/cluster.md, "Spack")."""

from spack.package import depends_on, license, variant, version, when
from spack_repo.builtin.build_systems.python import PythonPackage


class Pagewire(PythonPackage):
    """Emulated virtual-address RDMA network interface with page-fault handling (PART) under real
    MPI programs."""

    license("BSD-3-Clause")

    version("0.1.0")

    variant("mpi", default=True, description="MPI programs: mpi4py, and MPICH over libfabric")
    variant("plots", default=False, description="Pictures of experiments")

    depends_on("c", type="build")
    depends_on("python@3.11:", type=("build", "link", "run"))
    depends_on("py-meson-python@0.18:", type="build")
    depends_on("py-cffi@2.1:", type=("build", "run"))
    depends_on("py-numpy@1.26:", type="run")
    depends_on("py-typer@0.12:0.28", type="run")
    depends_on("py-rich@13:", type="run")
    depends_on("py-zstandard@0.22:", type="run")

    with when("+mpi"):
        depends_on("py-mpi4py@4.1:", type="run")
        depends_on("mpich@5.0: device=ch4 netmod=ofi", type="run")
        depends_on("libfabric", type=("build", "link"))  # the headers of the provider

    with when("+plots"):
        depends_on("py-matplotlib@3.8:", type="run")
        depends_on("py-reportlab@4.2:", type="run")

    def config_settings(self, spec, prefix):
        """Options of meson-python: the provider for programs that are not Python."""
        fabric = "enabled" if spec.satisfies("+mpi") else "disabled"
        return {"setup-args": {"-Dfabric": fabric}}
