"""gpucloud's loader of botocore's models finds what botocore's own does, for the services that it uses."""

from __future__ import annotations

from pathlib import Path

import pytest
from botocore.exceptions import DataNotFoundError, UnknownServiceError
from botocore.loaders import Loader

from gpucloud_aws.models import FolderLoader, allowed_operations


@pytest.fixture(scope="module")
def own() -> Loader:
    """gpucloud's loader of botocore's folders."""
    return allowed_operations(Loader())


def test_every_service_of_the_sdk_is_found(own: Loader) -> None:
    """The folders are the services that botocore finds by their files."""
    assert set(own.list_available_services("service-2")) >= set(Loader().list_available_services("service-2"))


def test_a_service_that_does_not_exist_is_refused_as_by_the_sdk(own: Loader) -> None:
    """A service without a folder, and a folder without the kind of file, have the SDK's own errors."""
    with pytest.raises(UnknownServiceError):
        own.load_service_model("no-such-service", "service-2")
    with pytest.raises(DataNotFoundError):
        own.load_service_model("ec2", "no-such-kind-1")


def test_an_operation_that_may_not_be_sent_is_not_loaded(own: Loader) -> None:
    """EC2's model has the calls of gpucloud alone; another service's is whole."""
    operations = own.load_service_model("ec2", "service-2")["operations"]
    assert "RunInstances" in operations
    assert "CreateVpnConnection" not in operations
    assert own.load_service_model("sts", "service-2") == Loader().load_service_model("sts", "service-2")


def test_a_folder_of_the_users_is_searched_too(tmp_path: Path) -> None:
    """A model in another search path is found by its folder."""
    (tmp_path / "mine").mkdir()
    assert (
        FolderLoader(extra_search_paths=[str(tmp_path)]).list_available_services("service-2").count("mine")
        == 1
    )
