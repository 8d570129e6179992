"""kvlane validate, list, show, schema, help and version."""

import json
import pathlib
import unittest

from support import Case, LOOPBACK, ROOT, TINY

COMMANDS = ("run", "compare", "sweep", "paper", "validate", "list", "show", "schema")


class Words(Case):
    def test_help(self):
        text = self.kvlane("--help").out
        self.assertEqual(self.kvlane("-h").out, text)
        for command in COMMANDS:
            self.assertRegex(text, rf"(?m)^  {command} ")
            self.assertIn(f"kvlane {command}", self.kvlane(command, "--help").out)
        nothing = self.kvlane(status=2)
        self.assertEqual((nothing.out, nothing.err), ("", text))

    def test_version(self):
        self.assertRegex(self.kvlane("--version").out, r"^kvlane \d+\.\d+\.\d+ \(\S+\), built with \S.*\n$")


class Validate(Case):
    def test_every_kind(self):
        files = {TINY: "scenario", "scenarios/studies/batch.yaml": "study", "scenarios/hardware/l20.yaml": "gpu",
                 "scenarios/models/qwen3-8b.yaml": "model", "scenarios/profiles/smollm2.yaml": "profile"}
        done = self.kvlane("validate", *files, "--format", "json")
        rows = json.loads(done.out)
        self.assertEqual(rows["schema"], "kvlane.validate/1")
        self.assertEqual({r["file"]: r["kind"] for r in rows["rows"]}, files)
        self.assertEqual(self.kvlane("validate", TINY).out, f"{TINY}: scenario, valid\n")

    def test_bad_files_are_all_named(self):
        bad = ["tests/unit/broken/tab.yaml", "tests/unit/broken/misspelt_key.yaml"]
        done = self.kvlane("validate", bad[0], TINY, bad[1], status=2)
        self.assertEqual(done.out, "")
        self.assertEqual([line.split(":")[1].strip() for line in done.err.splitlines()], bad)

    def test_set(self):
        self.kvlane("validate", TINY, "--set", "workload.output_tokens=9")
        self.refused("validate", TINY, "--set", "workload.output_tokens=1", says=("--set", "out of range"))


class List(Case):
    def test_names_can_be_used(self):
        for what, least in (("models", 14), ("hardware", 11), ("strategies", 5), ("scenarios", 10), ("profiles", 2),
                            ("workloads", 4)):
            rows = json.loads(self.kvlane("list", what, "--format", "json").out)
            self.assertEqual(rows["schema"], "kvlane.list/1")
            names = [r["name"] for r in rows["rows"]]
            self.assertGreaterEqual(len(names), least, what)
            self.assertEqual(len(set(names)), len(names))
            table = self.kvlane("list", what).out
            for name in names:
                self.assertIn(name, table)

    def test_shows_each_model(self):
        rows = json.loads(self.kvlane("list", "models", "--format", "json").out)["rows"]
        for row in rows:
            shown = json.loads(self.kvlane("show", "model", row["name"], "--tokens", 4096, "--format", "json").out)
            windowed = shown["kv_bytes"] - shown["kv_bytes_per_token_growing"] * 4096 - shown["kv_bytes_constant"]
            if shown["kv_bytes_per_token_windowed"]:
                self.assertEqual(windowed % shown["kv_bytes_per_token_windowed"], 0)
                self.assertLessEqual(windowed, shown["kv_bytes_per_token_windowed"] * 4096)
            else:
                self.assertEqual(windowed, 0)


class Show(Case):
    def test_model(self):
        # Llama-3.1-8B: 2 x 32 layers x 8 KV heads x 128 x 2 bytes = 128 KiB a token.
        shown = json.loads(self.kvlane("show", "model", "llama-3.1-8b", "--tokens", 1000, "--format", "json").out)
        self.assertEqual((shown["layers"], shown["kv_bytes"]), (32, 1000 * 128 * 1024))
        self.assertIn("131072", self.kvlane("show", "model", "llama-3.1-8b").out.replace(" ", ""))
        self.kvlane("show", "model", "scenarios/models/qwen3-8b.yaml")
        hugging_face = sorted(pathlib.Path(ROOT, "tests/unit/hf").glob("*.json"))
        self.assertTrue(hugging_face)

    def test_hardware(self):
        text = self.kvlane("show", "hardware", "l20").out
        self.assertIn("119.5", text)
        self.assertIn("datasheet", text)
        json.loads(self.kvlane("show", "hardware", "l20", "--format", "json").out)


class Schema(Case):
    def test_each_kind_is_a_schema_that_knows_its_files(self):
        known = self.refused("schema", "nothing").split("expected one of ")[1].strip().split(", ")
        self.assertIn("study", known)
        for kind in known:
            schema = json.loads(self.kvlane("schema", kind).out)
            self.assertIn("2020-12", schema["$schema"])
            self.assertEqual(schema["type"], "object")
            self.assertIs(schema["additionalProperties"], False)
        self.assertEqual(self.kvlane("schema").out, self.kvlane("schema", "scenario").out)
        # The keys at the margin of a scenario file.
        properties = json.loads(self.kvlane("schema").out)["properties"]
        with open(LOOPBACK, encoding="utf-8") as file:
            keys = {line.split(":")[0] for line in file if line[0].isalpha()}
        self.assertLessEqual(keys, set(properties))


if __name__ == "__main__":
    unittest.main()
