/** Names every skipped test and its reason after the run, so that no skip hides. */
export default async function* summary(source) {
  const skipped = [];
  for await (const { type, data } of source) {
    if ((type !== 'test:pass' && type !== 'test:fail') || data.skip === undefined) continue;
    const file = data.file?.replace(/^.*\/(test|src|plugins|packages)\//, '$1/') ?? '';
    skipped.push(`  ${file} › ${data.name}: ${data.skip === true ? 'no reason given' : data.skip}`);
  }
  if (skipped.length > 0) yield `\nSKIPPED (${skipped.length}):\n${skipped.join('\n')}\n`;
}
