import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';

const PATH = process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium';

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
