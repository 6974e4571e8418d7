package dev.boatswain.spark;

/** A call to boatswain that failed. */
final class ApiException extends Exception {
    private static final long serialVersionUID = 1L;
    private final int status;
    private final String code;

    /** @param status the HTTP status; 0 if there was no answer */
    ApiException(int status, String message, Throwable cause) {
        this(status, "", message, cause);
    }

    /** @param code boatswain's word for it; empty if it has none */
    ApiException(int status, String code, String message, Throwable cause) {
        super(message, cause);
        this.status = status;
        this.code = code;
    }

    /** A file without which boatswain cannot be asked; as 401, it may be replaced while Spark runs. */
    static ApiException unusable(String file, Exception cause) {
        return new ApiException(401, file + " cannot be used: " + cause, cause);
    }

    int status() {
        return status;
    }

    /**
     * Whether the same request may succeed later: no answer, an overloaded or starting driver. 401 counts, because token
     * files are replaced while Spark runs; and so does a profile that is still being removed, for want of a sign of this
     * application.
     */
    boolean passing() {
        return code.equals("being-removed") || status == 0 || status == 401 || status == 408 || status == 429 || status >= 500;
    }

    /** Whether waiting helps at the start, where a wrong token should be reported at once. */
    boolean passingAtStart() {
        return passing() && status != 401;
    }
}
