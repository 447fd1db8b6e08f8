"""A Laplace approximation beside a sampled posterior."""

from __future__ import annotations

from dataclasses import dataclass

from smcpn.columns import align
from smcpn.errors import InputError
from smcpn.estimate.laplace import Laplace
from smcpn.posterior import Posterior


@dataclass(frozen=True)
class AgreementRow:
    """One parameter in both.

    Attributes
    ----------
    name : str
    mean, sd : float
        Of the posterior.
    laplace_mean, laplace_sd : float
    """

    name: str
    mean: float
    sd: float
    laplace_mean: float
    laplace_sd: float

    @property
    def difference(self) -> float:
        """Difference of the means in posterior standard deviations."""
        return (self.laplace_mean - self.mean) / self.sd

    @property
    def sd_ratio(self) -> float:
        """Standard deviation of the approximation over that of the posterior."""
        return self.laplace_sd / self.sd


@dataclass(frozen=True)
class Agreement:
    """How far a Gaussian approximation is right.

    Attributes
    ----------
    rows : tuple of AgreementRow
    log_evidence, log_evidence_se, laplace_log_evidence : float
    """

    rows: tuple[AgreementRow, ...]
    log_evidence: float
    log_evidence_se: float
    laplace_log_evidence: float

    def summary(self) -> str:
        """Both as one table."""
        header = ["parameter", "mean", "sd", "Laplace mean", "sd", "difference / sd", "sd ratio"]
        rows = [
            [row.name, f"{row.mean:.5g}", f"{row.sd:.2g}", f"{row.laplace_mean:.5g}",
             f"{row.laplace_sd:.2g}", f"{row.difference:+.2f}", f"{row.sd_ratio:.2f}"]
            for row in self.rows
        ]  # fmt: skip
        evidence = (
            f"log-evidence     {self.log_evidence:.2f} +- {self.log_evidence_se:.2g}, "
            f"Laplace {self.laplace_log_evidence:.2f}"
        )
        return "\n".join([align([header, *rows], left=(0,)), "", evidence])


def agreement(laplace: Laplace, posterior: Posterior) -> Agreement:
    """Compare a Laplace approximation with a posterior.

    Raises
    ------
    InputError
        If their parameters differ.
    """
    if laplace.names != posterior.names:
        raise InputError(
            f"the posterior has the parameters {', '.join(posterior.names)}, the approximation "
            f"{', '.join(laplace.names)}: compare two of the same model"
        )
    ours, theirs = (laplace.mean, laplace.sd), (posterior.mean, posterior.sd)
    return Agreement(
        rows=tuple(
            AgreementRow(name, theirs[0][name], theirs[1][name], ours[0][name], ours[1][name])
            for name in laplace.names
        ),
        log_evidence=posterior.log_evidence,
        log_evidence_se=posterior.log_evidence_se,
        laplace_log_evidence=laplace.log_evidence,
    )
