import { Type } from '@sinclair/typebox';
import { closed } from './pieces.ts';

const file = (description: string) =>
  Type.Union([Type.String({ minLength: 1 }), Type.Null()], { default: null, description });

/** The certificate of the API listeners. */
export const tlsConfig = Type.Object(
  {
    certFile: file(
      'certificate chain (PEM) that both listeners speak TLS with; null = plain HTTP. SIGHUP reads the files again',
    ),
    keyFile: file('its private key (PEM, without a passphrase)'),
  },
  { ...closed, default: {} },
);
