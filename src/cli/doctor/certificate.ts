import type { CoreConfig } from '../../kernel/config/core.ts';
import { TLS_SECTIONS, type TlsSection } from '../../kernel/config/tls.ts';
import { readTlsFiles } from '../../kernel/http/tls-files.ts';
import { type Finding, fail, failedBy, ok, warn } from './finding.ts';

const DAY_MS = 86_400_000;
const SOON_DAYS = 14;
const ADVICE = 'renew it, then: systemctl reload parhelion (or kill -HUP); no restart is needed';

/** Whether the certificates can be served, and for how long; nothing of a section without one. */
export function certificateFindings(core: Pick<CoreConfig, TlsSection>, nowMs: number): Finding[] {
  return TLS_SECTIONS.flatMap((section) => {
    const check = section === 'http' ? 'certificate' : `${section} certificate`;
    try {
      const files = readTlsFiles(core, section);
      return files === null ? [] : [validity(check, files, nowMs)];
    } catch (error) {
      const advice = `check the files of ${section}.tls, and that the user of the daemon may read them`;
      return [failedBy(check, error, advice)];
    }
  });
}

function validity(
  check: string,
  {
    names,
    validFromMs,
    validToMs,
  }: { readonly names: string; readonly validFromMs: number; readonly validToMs: number },
  nowMs: number,
): Finding {
  const until = new Date(validToMs).toISOString().slice(0, 10);
  if (validToMs <= nowMs) return fail(check, `${names}: expired on ${until}`, ADVICE);
  if (validFromMs > nowMs)
    return fail(
      check,
      `${names}: valid only from ${new Date(validFromMs).toISOString()}`,
      'check the clock of this machine',
    );
  const days = Math.floor((validToMs - nowMs) / DAY_MS);
  if (days < SOON_DAYS) return warn(check, `${names}: expires in ${days} days, on ${until}`, ADVICE);
  return ok(check, `${names}: valid until ${until}`);
}
