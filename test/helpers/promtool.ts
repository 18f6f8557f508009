import { spawnSync } from 'node:child_process';

const program = process.env['PROMTOOL'] ?? 'promtool';

/** Why `promtool` cannot be run; null if it can. Says so loudly, and fails where REQUIRE_PROMTOOL=1 demands it. */
export function promtoolMissing(): string | null {
  if (spawnSync(program, ['--version']).status === 0) return null;
  const reason = `${program} (package prometheus) is not installed`;
  if (process.env['REQUIRE_PROMTOOL'] === '1') throw new Error(reason);
  console.error(`SKIPPED: ${reason}`);
  return reason;
}

/** Exit code and output of `promtool check …`. */
export function promtoolCheck(
  args: readonly string[],
  input?: string,
): { readonly status: number | null; readonly text: string } {
  const { status, stdout, stderr } = spawnSync(program, ['check', ...args], { encoding: 'utf8', input });
  return { status, text: stdout + stderr };
}
