import { Type } from '@sinclair/typebox';
import { closed } from './pieces.ts';

const file = (description: string) =>
  Type.Union([Type.String({ minLength: 1 }), Type.Null()], { default: null, description });

/** The certificate of listeners; `who` says of which. */
export const tlsConfig = (who: string) =>
  Type.Object(
    {
      certFile: file(`certificate chain (PEM) that ${who} TLS with; null = plain HTTP. SIGHUP reads the files again`),
      keyFile: file('its private key (PEM, without a passphrase)'),
    },
    { ...closed, default: {} },
  );

/** Where the configuration names certificates. */
export const TLS_SECTIONS = ['http', 'admin'] as const;
export type TlsSection = (typeof TLS_SECTIONS)[number];
