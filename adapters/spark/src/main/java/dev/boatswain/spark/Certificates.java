package dev.boatswain.spark;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;

/** Trusts the CAs of a PEM file, and no others. */
final class Certificates {
    private Certificates() {}

    static SSLSocketFactory trusting(Path pem) throws IOException {
        try (InputStream file = Files.newInputStream(pem)) {
            KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
            trusted.load(null, null);
            int number = 0;
            for (Certificate certificate : CertificateFactory.getInstance("X.509").generateCertificates(file)) {
                trusted.setCertificateEntry("ca-" + number++, certificate);
            }
            if (number == 0) {
                throw new IOException(pem + " has no certificate");
            }
            TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            managers.init(trusted);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(null, managers.getTrustManagers(), null);
            return context.getSocketFactory();
        } catch (GeneralSecurityException e) {
            throw new IOException(pem + " cannot be used: " + e.getMessage(), e);
        }
    }
}
