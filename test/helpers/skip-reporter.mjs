/** Names every skipped test and its reason after the run, so that no skip hides. */
export default async function* skips(source) {
  const skipped = [];
  for await (const event of source) {
    if ((event.type === 'test:pass' || event.type === 'test:fail') && event.data.skip !== undefined) {
      skipped.push(
        `  ${event.data.file?.replace(/^.*\/test\//, 'test/') ?? ''} › ${event.data.name}: ${event.data.skip === true ? 'no reason given' : event.data.skip}`,
      );
    }
  }
  if (skipped.length > 0) yield `\nSKIPPED (${skipped.length}):\n${skipped.join('\n')}\n`;
}
