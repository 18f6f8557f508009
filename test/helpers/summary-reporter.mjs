/** Names every skipped test and its reason after the run, so that no skip hides; then the files that took longest. */
const MOST_FILES = 30;
const LEAST_MS = 5_000;

export default async function* summary(source) {
  const skipped = [];
  const msOf = new Map();
  for await (const { type, data } of source) {
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const file = data.file?.replace(/^.*\/(test|src|plugins)\//, '$1/') ?? '';
    if (data.nesting === 0) msOf.set(file, (msOf.get(file) ?? 0) + data.details.duration_ms);
    if (data.skip !== undefined) {
      skipped.push(`  ${file} › ${data.name}: ${data.skip === true ? 'no reason given' : data.skip}`);
    }
  }
  if (skipped.length > 0) yield `\nSKIPPED (${skipped.length}):\n${skipped.join('\n')}\n`;
  const slow = [...msOf].filter(([, ms]) => ms >= LEAST_MS).sort((a, b) => b[1] - a[1]);
  if (slow.length > 0) {
    const lines = slow.slice(0, MOST_FILES).map(([file, ms]) => `${(ms / 1_000).toFixed(0).padStart(5)} s  ${file}`);
    yield `\nSLOWEST FILES:\n${lines.join('\n')}\n`;
  }
}
