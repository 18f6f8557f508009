import type { CoreConfig } from '../../kernel/config/core.ts';
import { readTlsFiles } from '../../kernel/http/tls-files.ts';
import { type Finding, fail, failedBy, ok, warn } from './finding.ts';

const CHECK = 'certificate';
const DAY_MS = 86_400_000;
const SOON_DAYS = 14;
const ADVICE = 'renew it, then: systemctl reload parhelion (or kill -HUP); no restart is needed';

/** Whether the certificate can be served, and for how long; nothing without one. */
export function certificateFindings(tls: CoreConfig['http']['tls'], nowMs: number): Finding[] {
  try {
    const files = readTlsFiles(tls);
    return files === null ? [] : [validity(files, nowMs)];
  } catch (error) {
    return [failedBy(CHECK, error, 'check the files of http.tls, and that the user of the daemon may read them')];
  }
}

function validity(
  {
    names,
    validFromMs,
    validToMs,
  }: { readonly names: string; readonly validFromMs: number; readonly validToMs: number },
  nowMs: number,
): Finding {
  const until = new Date(validToMs).toISOString().slice(0, 10);
  if (validToMs <= nowMs) return fail(CHECK, `${names}: expired on ${until}`, ADVICE);
  if (validFromMs > nowMs)
    return fail(
      CHECK,
      `${names}: valid only from ${new Date(validFromMs).toISOString()}`,
      'check the clock of this machine',
    );
  const days = Math.floor((validToMs - nowMs) / DAY_MS);
  if (days < SOON_DAYS) return warn(CHECK, `${names}: expires in ${days} days, on ${until}`, ADVICE);
  return ok(CHECK, `${names}: valid until ${until}`);
}
