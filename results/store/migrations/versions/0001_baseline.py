"""The first schema.

Schema 0001, after nothing. Spelled out, not taken from `results/store/schema.py`: that file moves on, this one stays.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _create_case()
    _create_environment()
    _create_hardware_profile()
    _create_method()
    _create_run()
    _create_process()
    _create_record()
    _create_measurement()
    _create_prediction()
    _create_telemetry()
    _create_energy()
    _create_machine_state()
    _create_attribution()
    _create_canary()
    _create_noise_floor()


def downgrade() -> None:
    raise NotImplementedError("a database is never downgraded: restore the backup instead")


def _create_case() -> None:
    op.create_table(
        "case",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("case_key", sa.Text(), nullable=False),
        sa.Column("op", sa.Text(), nullable=False),
        sa.Column("shape", sa.JSON(), nullable=False),
        sa.Column("formats", sa.JSON(), nullable=False),
        sa.Column("kernel", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("cache", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_case"),
        sa.UniqueConstraint("content_hash", name="uq_case_content_hash"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_case_case_key", "case", ["case_key"])


def _create_environment() -> None:
    op.create_table(
        "environment",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("environment_hash", sa.Text(), nullable=False),
        sa.Column("class_hash", sa.Text(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("class_facts", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_environment"),
        sa.UniqueConstraint("environment_hash", "class_hash", name="uq_environment_environment_hash_class_hash"),
        sqlite_autoincrement=True,
    )


def _create_hardware_profile() -> None:
    op.create_table(
        "hardware_profile",
        sa.Column("profile_hash", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("profile", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("profile_hash", name="pk_hardware_profile"),
    )


def _create_method() -> None:
    op.create_table(
        "method",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("method_hash", sa.Text(), nullable=False),
        sa.Column("timer", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_method"),
        sa.UniqueConstraint("method_hash", name="uq_method_method_hash"),
        sqlite_autoincrement=True,
    )


def _create_run() -> None:
    op.create_table(
        "run",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("finished_at", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("exit_code", sa.BigInteger(), nullable=True),
        sa.Column("hardware_key", sa.Text(), nullable=False),
        sa.Column("is_forced", sa.Boolean(), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("git_commit", sa.Text(), nullable=True),
        sa.Column("git_branch", sa.Text(), nullable=True),
        sa.Column("git_is_dirty", sa.Boolean(), nullable=True),
        sa.Column("plugin_version", sa.Text(), nullable=False),
        sa.Column("environment_id", ROW_ID, nullable=False),
        sa.ForeignKeyConstraint(["environment_id"], ["environment.id"], name="fk_run_environment_id_environment"),
        sa.PrimaryKeyConstraint("run_id", name="pk_run"),
    )
    op.create_index("ix_run_label_started_at", "run", ["label", "started_at"])
    op.create_index("ix_run_started_at", "run", ["started_at"])


def _create_process() -> None:
    op.create_table(
        "process",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("process_hash", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.BigInteger(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=True),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("end_reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.run_id"], name="fk_process_run_id_run", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_process"),
        sa.UniqueConstraint("run_id", "process_hash", name="uq_process_run_id_process_hash"),
        sqlite_autoincrement=True,
    )


def _create_record() -> None:
    op.create_table(
        "record",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("record_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("process_id", ROW_ID, nullable=False),
        sa.Column("case_id", ROW_ID, nullable=False),
        sa.Column("method_id", ROW_ID, nullable=True),
        sa.Column("history_key", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("test_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.Column("extra", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["case_id"], ["case.id"], name="fk_record_case_id_case"),
        sa.ForeignKeyConstraint(["method_id"], ["method.id"], name="fk_record_method_id_method"),
        sa.ForeignKeyConstraint(
            ["process_id"], ["process.id"], name="fk_record_process_id_process", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["run.run_id"], name="fk_record_run_id_run", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_record"),
        sa.UniqueConstraint("record_id", name="uq_record_record_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_record_case_id", "record", ["case_id"])
    op.create_index("ix_record_history_key_created_at", "record", ["history_key", "created_at"])
    op.create_index("ix_record_method_id", "record", ["method_id"])
    op.create_index("ix_record_process_id", "record", ["process_id"])
    op.create_index("ix_record_run_id_id", "record", ["run_id", "id"])


def _create_measurement() -> None:
    op.create_table(
        "measurement",
        sa.Column("record_pk", ROW_ID, autoincrement=False, nullable=False),
        sa.Column("samples", sa.LargeBinary(), nullable=False),
        sa.Column("calls_per_sample", sa.BigInteger(), nullable=False),
        sa.Column("median_s", sa.Double(), nullable=False),
        sa.Column("min_s", sa.Double(), nullable=False),
        sa.Column("max_s", sa.Double(), nullable=False),
        sa.Column("mean_s", sa.Double(), nullable=False),
        sa.Column("std_s", sa.Double(), nullable=True),
        sa.Column("q1_s", sa.Double(), nullable=False),
        sa.Column("q3_s", sa.Double(), nullable=False),
        sa.Column("sample_count", sa.BigInteger(), nullable=False),
        sa.Column("ci_low_s", sa.Double(), nullable=True),
        sa.Column("ci_high_s", sa.Double(), nullable=True),
        sa.Column("stop_reason", sa.Text(), nullable=False),
        sa.Column("first_call_s", sa.Double(), nullable=True),
        sa.Column("warmup_calls", sa.BigInteger(), nullable=False),
        sa.Column("wall_s", sa.Double(), nullable=True),
        sa.Column("rotation_count", sa.BigInteger(), nullable=False),
        sa.Column("working_set_bytes", sa.Double(), nullable=True),
        sa.Column("max_error", sa.Double(), nullable=True),
        sa.Column("tolerance", sa.Double(), nullable=True),
        sa.Column("power_w", sa.Double(), nullable=True),
        sa.Column("energy_j", sa.Double(), nullable=True),
        sa.Column("power_source", sa.Text(), nullable=True),
        sa.Column("sm_clock_hz", sa.Double(), nullable=True),
        sa.Column("temperature_c", sa.Double(), nullable=True),
        sa.Column("flags", sa.JSON(), nullable=False),
        sa.Column("clocks", sa.LargeBinary(), nullable=True),
        sa.Column("effective_sample_count", sa.Double(), nullable=True),
        sa.Column("outlier_count", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["record_pk"], ["record.id"], name="fk_measurement_record_pk_record", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("record_pk", name="pk_measurement"),
    )


def _create_prediction() -> None:
    op.create_table(
        "prediction",
        sa.Column("record_pk", ROW_ID, autoincrement=False, nullable=False),
        sa.Column("ordinal", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("model_version", sa.Text(), nullable=False),
        sa.Column("hardware_key", sa.Text(), nullable=False),
        sa.Column("profile_hash", sa.Text(), nullable=False),
        sa.Column("time_s", sa.Double(), nullable=False),
        sa.Column("memory_time_s", sa.Double(), nullable=True),
        sa.Column("compute_time_s", sa.Double(), nullable=True),
        sa.Column("bound", sa.Text(), nullable=False),
        sa.Column("flops", sa.Double(), nullable=False),
        sa.Column("read_bytes", sa.Double(), nullable=False),
        sa.Column("write_bytes", sa.Double(), nullable=False),
        sa.Column("bandwidth_bytes_per_s", sa.Double(), nullable=True),
        sa.Column("peak_flops_per_s", sa.Double(), nullable=True),
        sa.Column("compute_format", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("memory_level", sa.Text(), nullable=False),
        sa.Column("provenance", sa.Text(), nullable=False),
        sa.Column("low_s", sa.Double(), nullable=True),
        sa.Column("high_s", sa.Double(), nullable=True),
        sa.Column("findings", sa.JSON(), nullable=False),
        sa.Column("terms_s", sa.JSON(), nullable=True),
        sa.Column("error_ratio", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["record_pk"], ["record.id"], name="fk_prediction_record_pk_record", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("record_pk", "ordinal", name="pk_prediction"),
        sqlite_with_rowid=False,
    )


def _create_telemetry() -> None:
    op.create_table(
        "telemetry",
        sa.Column("record_pk", ROW_ID, autoincrement=False, nullable=False),
        sa.Column("ordinal", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("time_s", sa.Double(), nullable=False),
        sa.Column("power_w", sa.Double(), nullable=True),
        sa.Column("sm_clock_hz", sa.Double(), nullable=True),
        sa.Column("memory_clock_hz", sa.Double(), nullable=True),
        sa.Column("temperature_c", sa.Double(), nullable=True),
        sa.Column("utilization_ratio", sa.Double(), nullable=True),
        sa.Column("memory_used_bytes", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["record_pk"], ["record.id"], name="fk_telemetry_record_pk_record", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("record_pk", "ordinal", name="pk_telemetry"),
        sqlite_with_rowid=False,
    )


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
