import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Why certificates cannot be made here, or null. */
export function opensslMissing(): string | null {
  try {
    execFileSync('openssl', ['version'], { stdio: 'ignore' });
    return null;
  } catch {
    const reason = 'openssl is not installed: nothing of TLS is tested';
    console.error(`SKIPPED: ${reason}`);
    return reason;
  }
}

export interface TestCertificate {
  readonly cert: string;
  readonly key: string;
}

/** A certificate for localhost and 127.0.0.1 that signs itself: it is its own authority. */
export function makeCertificate({
  days = 30,
  passphrase,
}: {
  days?: number;
  passphrase?: string;
} = {}): TestCertificate {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-certificate-'));
  try {
    const [keyFile, certFile] = [join(dir, 'key.pem'), join(dir, 'cert.pem')];
    const name = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1'];
    const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1'];
    const lock = passphrase === undefined ? ['-nodes'] : ['-passout', `pass:${passphrase}`];
    const files = ['-keyout', keyFile, '-out', certFile];
    execFileSync('openssl', ['req', '-x509', ...kind, ...lock, ...files, '-days', String(days), ...name], {
      stdio: 'ignore',
    });
    return { cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8') };
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
