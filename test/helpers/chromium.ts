import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, chromium, type Page } from 'playwright-core';

/** The first has the same engine without a screen, and takes less CPU time. */
const PATHS = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'];
const PATH = process.env['CHROMIUM_PATH'] ?? PATHS.find((path) => existsSync(path)) ?? PATHS[0]!;

/** Why no browser can be driven here, or null. With REQUIRE_CHROMIUM=1 a reason is an error. */
export function chromiumMissing(): string | null {
  if (existsSync(PATH)) return null;
  const reason = `no browser at ${PATH}: set CHROMIUM_PATH`;
  if (process.env['REQUIRE_CHROMIUM'] === '1') throw new Error(reason);
  return reason;
}

/** A browser that asks nobody but the pages it is sent to. */
export function startChromium(): Promise<Browser> {
  const quiet = ['--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-quic'];
  return chromium.launch({ executablePath: PATH, args: ['--no-sandbox', '--disable-gpu', '--no-first-run', ...quiet] });
}

/** What axe finds wrong on a page. The checker gets around the page's policy for its content. */
export async function axeFaults(page: Page): Promise<readonly string[]> {
  if ((await page.evaluate('typeof axe')) === 'undefined') {
    const expression = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
    await (await page.context().newCDPSession(page)).send('Runtime.evaluate', { expression });
  }
  // The passes are counted where they are: their markup would be most of the answer.
  const run = `axe.run({ resultTypes: ['violations'] }).then(({ violations, passes }) => ({
    violations: violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html.slice(0, 160))]),
    rules: violations.length + passes.length,
  }))`;
  const { violations, rules } = (await page.evaluate(run)) as { violations: [string, string[]][]; rules: number };
  if (rules === 0) return ['axe checked nothing'];
  return violations.map(([id, nodes]) => `${id}: ${nodes.join(' ')}`);
}
