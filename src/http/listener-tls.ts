import type { Server, ServerOptions } from 'node:http';
import type { CoreConfig, TlsSection } from '../config/core.ts';
import { CodedError } from '../lib/coded-error.ts';
import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import type { HttpMeter } from './meter.ts';
import { readTlsFiles, type TlsFiles } from './tls-files.ts';
import { createTlsServer, type Handshakes, serveCertificate } from './tls-listener.ts';

export interface ListenerTlsOptions {
  /** Whose certificate it is: that of the API listeners or of the admin listener. */
  readonly section: TlsSection;
  readonly core: CoreConfig;
  readonly clock: Clock;
  readonly log: Log;
}

/** What the listeners of one section share of TLS. */
export interface ListenerTls {
  /** Undefined without TLS. */
  readonly makeServer: ((options: ServerOptions) => Server) | undefined;
  /** See `HttpFront.prepareTls`. */
  prepare(core: CoreConfig): () => void;
  /** Ends the connections that have not said a word yet. */
  endHandshakes(): void;
}

/** Without a certificate in the section nothing is read and nothing happens. The files are first read by `prepare`. */
export function createListenerTls({ section, core, clock, log }: ListenerTlsOptions, meter: HttpMeter): ListenerTls {
  const isOn = core[section].tls.certFile !== null;
  const servers: { readonly server: Server; readonly handshakes: Handshakes }[] = [];
  let served: TlsFiles | null = null;

  const makeServer = (options: ServerOptions): Server => {
    const made = createTlsServer(options, core.http.headerTimeoutMs, meter);
    servers.push(made);
    return made.server;
  };

  function serve(files: TlsFiles): void {
    for (const { server } of servers) serveCertificate(server, files);
    const { names, fingerprint, validToMs } = files;
    const validTo = new Date(validToMs).toISOString();
    if (validToMs <= clock.now()) log.warn({ listener: section, names, validTo }, 'the certificate has expired');
    if (served?.fingerprint !== fingerprint)
      log.info({ listener: section, names, validTo, fingerprint }, 'certificate served');
    served = files;
  }

  return {
    makeServer: isOn ? makeServer : undefined,
    prepare(next) {
      const files = readTlsFiles(next, section);
      if ((files !== null) !== isOn)
        throw new CodedError('PLUGIN_RELOAD_REFUSED', `changes of these keys need a restart: ${section}.tls`, {
          facts: { keys: [`${section}.tls`] },
        });
      if (files === null) return () => undefined;
      // At the start there is nothing better; later an old one that is good is.
      if (served !== null && files.fingerprint !== served.fingerprint && files.validToMs <= clock.now())
        throw new CodedError(
          'TLS_INVALID',
          `${section}.tls.certFile: ${next[section].tls.certFile} holds a certificate that has expired`,
        );
      return () => serve(files);
    },
    endHandshakes() {
      for (const { handshakes } of servers) handshakes.destroyAll();
    },
  };
}
