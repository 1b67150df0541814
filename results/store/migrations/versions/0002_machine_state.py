"""Energy, machine state, attribution, canaries, noise floors; three columns of measurement, two of process, one of
prediction.

Schema 0002, after 0001. Spelled out, not taken from `results/store/schema.py`: that file moves on, this one stays.

Every old row stays as it is: the new columns are added in place (both databases do that without touching a row), so
no table is rebuilt and none of SQLite's traps with batch mode, dropped parents and cascades is near. `server_default`
is what makes a NOT NULL column possible that way; it stays in the schema.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("process", sa.Column("role", sa.Text(), nullable=False, server_default="main"))
    op.add_column("process", sa.Column("end_reason", sa.Text(), nullable=False, server_default=""))
    op.add_column("measurement", sa.Column("clocks", sa.LargeBinary(), nullable=True))
    op.add_column("measurement", sa.Column("effective_sample_count", sa.Double(), nullable=True))
    op.add_column("measurement", sa.Column("outlier_count", sa.BigInteger(), nullable=True))
    op.add_column("prediction", sa.Column("terms_s", sa.JSON(), nullable=True))
    _create_energy()
    _create_machine_state()
    _create_attribution()
    _create_canary()
    _create_noise_floor()


def downgrade() -> None:
    raise NotImplementedError("a database is never downgraded: restore the backup instead")


def _create_energy() -> None:
    op.create_table(
        "energy",
        sa.Column("record_pk", ROW_ID, autoincrement=False, nullable=False),
        sa.Column("energy_j", sa.Double(), nullable=False),
        sa.Column("power_w", sa.Double(), nullable=False),
        sa.Column("window_s", sa.Double(), nullable=False),
        sa.Column("window_count", sa.BigInteger(), nullable=False),
        sa.Column("call_count", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("std_j", sa.Double(), nullable=True),
        sa.Column("idle_power_w", sa.Double(), nullable=True),
        sa.Column("net_energy_j", sa.Double(), nullable=True),
        sa.Column("cross_check_j", sa.Double(), nullable=True),
        sa.Column("sensor_period_s", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["record_pk"], ["record.id"], name="fk_energy_record_pk_record", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("record_pk", name="pk_energy"),
    )


def _create_machine_state() -> None:
    op.create_table(
        "machine_state",
        sa.Column("record_pk", ROW_ID, autoincrement=False, nullable=False),
        sa.Column("throttled_s", sa.JSON(), nullable=True),
        sa.Column("rated_clock_hz", sa.Double(), nullable=True),
        sa.Column("retry_count", sa.BigInteger(), nullable=False),
        sa.Column("others_ratio", sa.Double(), nullable=True),
        sa.Column("stolen_ratio", sa.Double(), nullable=True),
        sa.Column("device_process_count", sa.BigInteger(), nullable=True),
        sa.Column("cpu_clock_hz", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["record_pk"], ["record.id"], name="fk_machine_state_record_pk_record", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("record_pk", name="pk_machine_state"),
    )


def _create_attribution() -> None:
    op.create_table(
        "attribution",
        sa.Column("record_pk", ROW_ID, autoincrement=False, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("kernel_count", sa.Double(), nullable=False),
        sa.Column("busy_s", sa.Double(), nullable=False),
        sa.Column("latency_s", sa.Double(), nullable=False),
        sa.Column("kernel_names", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["record_pk"], ["record.id"], name="fk_attribution_record_pk_record", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("record_pk", name="pk_attribution"),
    )


def _create_canary() -> None:
    op.create_table(
        "canary",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("class_hash", sa.Text(), nullable=False),
        sa.Column("process_ordinal", sa.BigInteger(), nullable=False),
        sa.Column("ordinal", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.Column("kernel", sa.Text(), nullable=False),
        sa.Column("time_s", sa.Double(), nullable=False),
        sa.Column("reference_s", sa.Double(), nullable=True),
        sa.Column("is_slow", sa.Boolean(), nullable=False),
        sa.Column("power_w", sa.Double(), nullable=True),
        sa.Column("sm_clock_hz", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["run.run_id"], name="fk_canary_run_id_run", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_canary"),
        sa.UniqueConstraint("run_id", "process_ordinal", "ordinal", "created_at", "kernel", name="uq_canary_reading"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_canary_class_hash_kernel_is_slow_created_at", "canary", ["class_hash", "kernel", "is_slow", "created_at"]
    )


def _create_noise_floor() -> None:
    op.create_table(
        "noise_floor",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("class_hash", sa.Text(), nullable=False),
        sa.Column("case_key", sa.Text(), nullable=False),
        sa.Column("method_hash", sa.Text(), nullable=False),
        sa.Column("between_sd_ratio", sa.Double(), nullable=False),
        sa.Column("within_sd_ratio", sa.Double(), nullable=True),
        sa.Column("process_count", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.Column("run_ids", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_noise_floor"),
        sa.UniqueConstraint(
            "class_hash",
            "case_key",
            "method_hash",
            "created_at",
            name="uq_noise_floor_class_hash_case_key_method_hash_created_at",
        ),
        sqlite_autoincrement=True,
    )
