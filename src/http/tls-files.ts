import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import type { CoreConfig, TlsSection } from '../config/core.ts';
import { CodedError, codeOf } from '../lib/coded-error.ts';
import { EXIT } from '../runtime/errors.ts';

/** Older protocol versions are broken. */
export const MIN_TLS_VERSION = 'TLSv1.2';

/** A certificate that was checked, with its key. */
export interface TlsFiles {
  readonly cert: Buffer;
  readonly key: Buffer;
  /** SHA-256 of the certificate: tells whether it is another one. */
  readonly fingerprint: string;
  /** Names and addresses that it is for, as the certificate writes them. */
  readonly names: string;
  /** Unix milliseconds between which clients accept it. */
  readonly validFromMs: number;
  readonly validToMs: number;
}

/**
 * Reads the certificate of a section and proves that a listener could serve it; null when none is configured. Errors: TLS_UNREADABLE,
 * TLS_INVALID, exit 78; they name files and never say what is in them.
 */
export function readTlsFiles(core: Pick<CoreConfig, TlsSection>, section: TlsSection): TlsFiles | null {
  const { certFile, keyFile } = core[section].tls;
  const name = `${section}.tls`;
  if (certFile === null && keyFile === null) return null;
  if (certFile === null || keyFile === null) throw invalid(`${name} wants both certFile and keyFile, or none of them`);
  const cert = readFile(`${name}.certFile`, certFile);
  const key = readFile(`${name}.keyFile`, keyFile);
  const certificate = parse(() => new X509Certificate(cert), `${name}.certFile: ${certFile} holds no PEM certificate`);
  const privateKey: KeyObject = parse(
    () => createPrivateKey(key),
    `${name}.keyFile: ${keyFile} holds no PEM private key, or one with a passphrase`,
  );
  if (!certificate.checkPrivateKey(privateKey))
    throw invalid(`${name}: the key of ${keyFile} is not that of the certificate in ${certFile}`);
  parse(
    () => createSecureContext({ cert, key, minVersion: MIN_TLS_VERSION }),
    `${name}: ${certFile} and ${keyFile} cannot be served: the chain is damaged, or the key too weak`,
  );
  return {
    ...{ cert, key, fingerprint: certificate.fingerprint256 },
    names: certificate.subjectAltName ?? certificate.subject,
    validFromMs: Date.parse(certificate.validFrom),
    validToMs: Date.parse(certificate.validTo),
  };
}

function readFile(name: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new CodedError('TLS_UNREADABLE', `${name}: ${path} cannot be read (${codeOf(error) ?? 'error'})`, {
      exitCode: EXIT.config,
    });
  }
}

/** What OpenSSL says is left out: nobody knows how much of a file it repeats. */
function parse<T>(make: () => T, problem: string): T {
  try {
    return make();
  } catch {
    throw invalid(problem);
  }
}

const invalid = (problem: string) => new CodedError('TLS_INVALID', problem, { exitCode: EXIT.config });
